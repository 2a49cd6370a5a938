"""Makes the parts in which a tensor of several axes is reduced begin where its rows do.

Inductor reduces a tensor of n elements in parts of equal length b, and names element r of part p by its position
t = p * b + r, for those with `t < n`. Of rows that are not contiguous, as those of a slice or of a channel, an address
then has `t // length` and `t % length`, and no tile goes along it. Here a part has whole rows: r becomes (row, index in
the row). With sizes that are known `choices.py` asks for parts that are whole rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import dependencies, ir
from torch._inductor.loop_body import LoopBody, MemoryUsageType
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.codegen.index.split_points import is_multiple, quotient
from inductor_npu.codegen.scheduling.masked_indices import Limit, limits_in
from inductor_npu.support.optional_steps import Kind, optional_step

Nodes = list[BaseSchedulerNode]
Sizes = tuple[list[sympy.Expr], list[sympy.Expr]]
Variables = tuple[list[sympy.Symbol], list[sympy.Symbol]]

# Those for which elements that do not count have a value of their own.
_REDUCTIONS = ("sum", "prod", "max", "min", "any", "xor_sum", "welford_combine")
_POSITION = sympy.Symbol("position", integer=True, nonnegative=True)
_ROW = sympy.Symbol("row", integer=True, nonnegative=True)


@optional_step(Kind.INDICES, "parts of rows")
def with_parts_of_whole_rows(nodes: Nodes) -> Nodes:
    """`nodes`, not fused yet, with other loops in those on `npu` that reduce parts."""
    for node in nodes:
        device = node.get_device()
        if isinstance(node, SchedulerNode) and device is not None and device.type == "npu" and node.is_reduction():
            _, body, variables = node.node.get_default_sizes_body()
            if body is not None and _Parts.of(body, variables) is not None:
                node.recompute_size_and_body(recompute_sizes_body_func=_by_rows)
    return nodes


@dataclass(frozen=True)
class _Parts:
    """Loops over parts. `addresses` are the indices of the body by name, of `_POSITION` in place of part and element.

    `part` is the variable of the parts, `elements` the length of each, `row` that of a row.
    """

    part: sympy.Symbol
    elements: sympy.Expr
    row: sympy.Expr
    addresses: dict[str, sympy.Expr]
    limit: Limit

    @staticmethod
    def of(body: LoopBody, variables: Variables) -> _Parts | None:
        """The parts that `body` reduces, if a tile goes along their rows and these have places of their own; None for
        other loops, as for sums over columns: a tile goes along these.
        """
        limit = _limit_of_parts(body)
        if limit is None or len(variables[1]) != 1:
            return None
        (element,) = variables[1]
        position = body.indexing_exprs[limit.index]
        before = sympy.expand(position - element)
        parts = [variable for variable in variables[0] if variable in before.free_symbols]
        if element in before.free_symbols or len(parts) != 1:
            return None
        elements = before.coeff(parts[0])
        if elements.has(parts[0]) or sympy.expand(before - elements * parts[0]) != 0:
            return None
        addresses = {
            name: _of_position(index, position, element, before) for name, index in body.indexing_exprs.items()
        }
        loads = [addresses[load.index_name] for load in body.memory_usage[MemoryUsageType.LOAD]]
        if any(sympy.expand(load).coeff(variable) == 1 for load in loads for variable in variables[0]):
            return None
        row = _shortest_row(addresses.values(), limit.value)
        if row is None or any(element in address.free_symbols for address in addresses.values()):
            return None
        return _Parts(parts[0], elements, row, addresses, limit)

    @property
    def rows(self) -> sympy.Expr:
        """How many rows a part has."""
        return FloorDiv(self.elements + self.row - 1, self.row)

    def indices(self, element: sympy.Symbol) -> dict[str, sympy.Expr]:
        """The indices by name, of `_ROW` and the index in it, `element`."""
        found = {name: self._in_rows(address, element) for name, address in self.addresses.items()}
        if self.limit.is_alone and self.limit.limit is not None and is_multiple(self.limit.value, self.row):
            found |= {self.limit.index: _ROW, self.limit.limit: quotient(self.limit.value, self.row)}
        return found

    def _in_rows(self, address: sympy.Expr, element: sympy.Symbol) -> sympy.Expr:
        def division(base: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
            return FloorDiv(_ROW, quotient(divisor, self.row)) if base == _POSITION else FloorDiv(base, divisor)

        def remainder(base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr) -> sympy.Expr:
            if base != _POSITION:
                return ModularIndexing(base, divisor, modulus)
            if divisor != 1:
                return ModularIndexing(_ROW, quotient(divisor, self.row), modulus)
            return self.row * ModularIndexing(_ROW, 1, quotient(modulus, self.row)) + element

        address = address.replace(FloorDiv, division).replace(ModularIndexing, remainder)
        return address.xreplace({_POSITION: _ROW * self.row + element})


def _by_rows(sizes: Sizes, body: LoopBody, variables: Variables) -> tuple[Sizes, LoopBody, Variables]:
    """Inductor's default loops, of rows."""
    parts = _Parts.of(body, variables)
    assert parts is not None, "of these loops only"
    reduced = [parts.rows, parts.row]
    (outer, (row, element)), ranges = dependencies.index_vars_no_squeeze(sizes[0], reduced, prefix="d")
    made = LoopBody(body, [outer, [row * parts.row + element]], ranges, outer, [row, element], True)
    renamed = dict(zip(variables[0], outer, strict=True))
    for name, index in parts.indices(element).items():
        index = index.xreplace(renamed).xreplace({_ROW: renamed[parts.part] * parts.rows + row})
        made.indexing_exprs[name] = V.graph.sizevars.simplify_with_ranges(index, ranges)
    return (sizes[0], reduced), made, (outer, [row, element])


def _limit_of_parts(body: LoopBody) -> Limit | None:
    """The predicate that keeps what is reduced within the tensor: elsewhere it has a value that does not count."""
    limits = limits_in(body)
    reductions = [node for node in body.root_block.graph.nodes if node.target == "reduction"]
    if len(reductions) != 1 or reductions[0].args[3] not in _REDUCTIONS:
        return None
    _, dtype, _, kind, values = reductions[0].args
    values = values if isinstance(values, tuple) else (values,)
    defaults: Any = ir.Reduction.default_accumulator(kind, dtype)
    defaults = defaults if isinstance(defaults, Sequence) else (defaults,)
    found = set[Limit]()
    for value, default in zip(values, defaults, strict=True):
        is_masked = isinstance(value, torch.fx.Node) and value.target in body.subblocks
        if not is_masked or value.args[0] not in limits or value.args[1] != default:
            return None
        found.add(limits[value.args[0]])
    return found.pop() if len(found) == 1 else None


def _of_position(index: sympy.Expr, position: sympy.Expr, element: sympy.Symbol, before: sympy.Expr) -> sympy.Expr:
    """`index` of `_POSITION`, as far as it depends on `position`, which is `before + element`."""
    index = sympy.sympify(index).xreplace({position: _POSITION})
    count = sympy.expand(index).coeff(element) if element in index.free_symbols else sympy.S.Zero
    return index if count == 0 else sympy.expand(index - count * (before + element)) + count * _POSITION


def _divisions_of(address: sympy.Expr) -> list[sympy.Expr]:
    return [division for division in address.atoms(FloorDiv, ModularIndexing) if division.args[0] == _POSITION]


def _shortest_row(addresses: Iterable[sympy.Expr], end: sympy.Expr) -> sympy.Expr | None:
    """The length of the innermost rows that have a place of their own; None if there are none, or others begin within
    them. A remainder by `end`, all elements, is none (`masked_indices.py`).
    """
    lengths = list[sympy.Expr]()
    for _, divisor, *modulus in (division.args for address in addresses for division in _divisions_of(address)):
        if divisor != 1 or not V.graph.sizevars.statically_known_equals(modulus[0], end):
            lengths.append(divisor if divisor != 1 else modulus[0])
    shortest = min(lengths, key=hint, default=None)
    return shortest if all(is_multiple(length, shortest) for length in lengths) else None

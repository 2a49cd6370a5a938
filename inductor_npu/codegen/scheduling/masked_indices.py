"""Drops the remainders in indices that a predicate around them makes needless.

Inductor reduces a tensor in parts of equal length, the last of which ends behind the tensor, and names the elements of
a part by `i % n`, for those with `i < n`. The remainder is `i`. With it, no vector goes along the row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.loop_body import LoopBody, LoopBodyBlock
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from inductor_npu.support.optional_steps import Kind, optional_step

Nodes = list[BaseSchedulerNode]

_INDEX = "get_index"


@optional_step(Kind.INDICES, "masked indices")
def without_needless_remainders(nodes: Nodes) -> Nodes:
    """`nodes`, not fused yet, with simpler indices in the bodies of those on `npu`."""
    for node in nodes:
        device = node.get_device()
        body = getattr(node, "_body", None)  # None of a template
        if body is not None and device is not None and device.type == "npu":
            simplify(body)
    return nodes


def simplify(body: LoopBody) -> None:
    """Simplifies the indices that nothing but one block under a predicate `index < limit` uses."""
    users, limits = _users(body), limits_in(body)
    for call in (node for block in _blocks(body) for node in block.graph.nodes):
        if call.target in body.subblocks and call.args[0] in limits:
            limit = limits[call.args[0]]
            for name in (name for name, blocks in users.items() if blocks == {call.target}):
                index = body.indexing_exprs[limit.index]
                body.indexing_exprs[name] = _below(index, limit.value, body.indexing_exprs[name], body)


@dataclass(frozen=True)
class Limit:
    """A predicate `index < limit`: the names of both in the body's indices, None for a limit that is a constant, and
    the `value` of the limit. `is_alone`: nothing else uses these names.
    """

    index: str
    limit: str | None
    value: sympy.Expr
    is_alone: bool


def limits_in(body: LoopBody) -> dict[torch.fx.Node, Limit]:
    """The predicates of the form `index < limit` in `body`."""
    nodes = [node for block in _blocks(body) for node in block.graph.nodes]
    sides = {node: [_name_or_number(side) for side in node.args[1:]] for node in nodes if node.target == "lt"}
    uses = Counter(node.args[0] for node in nodes if node.target == _INDEX)
    compared = Counter(side for pair in sides.values() for side in pair)
    found = dict[torch.fx.Node, Limit]()
    for node, (index, limit) in sides.items():
        if isinstance(index, str) and limit is not None:
            name = limit if isinstance(limit, str) else None
            value = sympy.Integer(limit) if name is None else body.indexing_exprs[name]
            is_alone = all(uses[each] == compared[each] == compared[index] for each in (index, name) if each)
            found[node] = Limit(index, name, value, is_alone)
    return found


def _name_or_number(operand: Any) -> str | int | None:
    """The name of an index that is a value, or a constant; None for any other operand."""
    if not isinstance(operand, torch.fx.Node):
        return None
    if operand.target == "constant" and isinstance(operand.args[1], int):
        return operand.args[1]
    return operand.args[1].args[0] if operand.target == "index_expr" and operand.args[1].target == _INDEX else None


def _blocks(body: LoopBody) -> list[LoopBodyBlock]:
    return [body.root_block, *body.subblocks.values()]


def _users(body: LoopBody) -> dict[str, set[str]]:
    """The blocks that use each index of `body`, by name; "" is the outermost."""
    users: dict[str, set[str]] = {}
    for name, block in (("", body.root_block), *body.subblocks.items()):
        for node in block.graph.nodes:
            if node.op == "call_module" and node.target == _INDEX:
                users.setdefault(node.args[0], set()).add(name)
    return users


def _below(index: sympy.Expr, limit: sympy.Expr, address: sympy.Expr, body: LoopBody) -> sympy.Expr:
    """`address` where `index` < `limit`. Inductor's remainders are those of C, of numbers that are not negative
    (`ModularIndexing` in torch/utils/_sympy/functions.py).
    """

    def quotient(base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr) -> sympy.Expr:
        end = divisor * modulus
        if base == index and V.graph.sizevars.statically_known_equals(end, limit):
            return FloorDiv(base, divisor)
        if (_largest(base - index, body) + limit - end).is_nonpositive:
            return FloorDiv(base, divisor)
        return ModularIndexing(base, divisor, modulus)

    return address.replace(ModularIndexing, quotient)


def _largest(index: sympy.Expr, body: LoopBody) -> sympy.Expr:
    """The upper bound of `index` in the loops of `body`: infinity where nothing is known."""
    lengths = {symbol: body.var_ranges.get(symbol) for symbol in index.free_symbols}
    if not all(isinstance(length, int | sympy.Integer) for length in lengths.values()):
        return int_oo
    return bound_sympy(index, {symbol: ValueRanges(0, int(lengths[symbol]) - 1) for symbol in lengths}).upper

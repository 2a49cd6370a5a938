"""The axes of a kernel: its loop variables, split and merged until every address is affine in them.

The dimensions of a kernel's loops start and end at *split points* (split_points.py); a `//` or `%` in an address asks
for one more. The range between two split points is an axis; neighbouring axes that every address crosses without a gap
are merged. A loop may ask for a split point that does not fit the others. It gets its indices by `//` and `%`, which
make an axis a scalar-loop axis; fusion.py keeps Inductor from fusing such loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, Identity, ModularIndexing

from inductor_npu.codegen.index.affine import Affine, affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.size_terms import written_out
from inductor_npu.codegen.index.split_points import SplitPoints, equal, is_multiple, product, quotient

# Names of axes from the innermost outwards; none begins like one of Inductor's kinds of symbols.
_POINTWISE_NAMES = ("x", "y", "z", "w", "v", "q", "p", "n", "m", "k", "g", "f", "e", "d", "c", "b")

# Rounds of looking for `//` and `%` in addresses: one split may reveal another.
_ROUNDS = 3

_ANYWHERE = Bounds({}, {})


@dataclass(frozen=True)
class Axis:
    """One loop variable of a kernel.

    `prefix` begins the names of its block, offset, mask and length in the kernel's source ("x": XBLOCK, xnumel).
    `symbol` is its index in addresses. `length` is in indices, `stride` in elements of the kernel's flattened loop.
    """

    prefix: str
    symbol: sympy.Symbol
    length: sympy.Expr
    stride: sympy.Expr
    is_reduction: bool


class Axes:
    """The axes of a kernel whose pointwise loops have `numel` elements and whose reductions have `reduction_numel`.

    `pointwise` and `reduction` list the axes from the outermost inwards. With `whole_rows` there is at most one reduced
    axis. Axes of different `part`s of one kernel have different names.
    """

    pointwise: list[Axis]
    reduction: list[Axis]
    # Elements of all loops together.
    elements: sympy.Expr

    def __init__(
        self,
        nodes: Sequence[Any],
        numel: sympy.Expr,
        reduction_numel: sympy.Expr,
        whole_rows: bool = False,
        part: int | None = None,
    ) -> None:
        self.elements = numel * reduction_numel
        self._part = "" if part is None else f"{part}_"
        self._simplified: dict[sympy.Expr, sympy.Expr] = {}
        self._split_points = SplitPoints(numel, reduction_numel, whole_rows)
        self._split_points.add_all_of(nodes)
        self._set_parts()
        for _ in range(_ROUNDS):
            addresses = self._addresses(nodes)
            if not self._cut_at_divisions(addresses):
                break
            self._set_parts()
        self._merge([affine(self._in_parts(address), self._parts) for address in addresses])

    @property
    def all(self) -> list[Axis]:
        """The pointwise axes, then the reduced ones."""
        return [*self.pointwise, *self.reduction]

    @property
    def lengths(self) -> dict[sympy.Symbol, sympy.Expr]:
        """The length of each axis in `all`, by symbol."""
        return {axis.symbol: axis.length for axis in self.all}

    @property
    def lengths_in_indices(self) -> dict[sympy.Symbol, sympy.Expr]:
        """As `lengths`, also of the symbols in `index_variables`."""
        return {**self._parts, **self.lengths}

    def _set_parts(self) -> None:
        """Makes one symbol for each range between neighbouring split points, from the innermost outwards."""
        self._parts = {
            sympy.Symbol(f"a{position}", integer=True, nonnegative=True): quotient(above, below)
            for position, (below, above) in enumerate(self._part_ends())
        }

    def _part_ends(self) -> Iterator[tuple[sympy.Expr, sympy.Expr]]:
        """Neighbouring split points."""
        return zip(self._split_points.all, self._split_points.all[1:], strict=False)

    def _cut_at_divisions(self, addresses: Iterable[sympy.Expr]) -> bool:
        """Adds the split points that remove a `//` or `%`; returns whether there were any."""
        count = len(self._split_points.all)
        strides = dict(zip(self._parts, self._split_points.all, strict=False))
        for address in addresses:
            for division in address.atoms(FloorDiv, ModularIndexing):
                divisor = division.args[1]
                bounds = [divisor, *([product([divisor, division.args[2]])] if len(division.args) == 3 else [])]
                for part, step in affine(division.args[0], self._parts).strides.items():
                    for bound in bounds:
                        if not bound.is_positive or not step.is_positive or not is_multiple(bound, step):
                            continue
                        length = quotient(bound, step)
                        point = product([strides[part], length])
                        is_split = not equal(length, sympy.S.One) and is_multiple(self._parts[part], length)
                        if is_split:
                            self._split_points.add(point)
        return len(self._split_points.all) > count

    def _merge(self, addresses: Sequence[Affine]) -> None:
        """Merges neighbouring parts that every address crosses without a gap, and names the axes."""
        groups: list[list[sympy.Symbol]] = []
        parts = list(self._parts)
        for position, part in enumerate(parts):
            at_boundary = equal(self._split_points.all[position], self._split_points.reduction_numel)
            if groups and not at_boundary and self._seamless(groups[-1], part, addresses):
                groups[-1].append(part)
            else:
                groups.append([part])
        self.pointwise, self.reduction = [], []
        self._substitution: dict[sympy.Symbol, sympy.Expr] = {}
        self._joined: list[tuple[list[sympy.Symbol], Axis]] = []
        strides = dict(zip(self._parts, self._split_points.all, strict=False))
        rows = self._split_points.position_of(self._split_points.reduction_numel)
        assert rows is not None
        for group in groups:
            stride = strides[group[0]]
            is_reduction = parts.index(group[0]) < rows
            among = self.reduction if is_reduction else self.pointwise
            prefix = f"r{self._part}{len(among)}_" if is_reduction else f"{_POINTWISE_NAMES[len(among)]}{self._part}"
            symbol = sympy.Symbol(prefix.rstrip("_"), integer=True, nonnegative=True)
            axis = Axis(prefix, symbol, product(self._parts[part] for part in group), stride, is_reduction)
            among.append(axis)
            self._joined.append((group, axis))
        self.pointwise.reverse()
        self.reduction.reverse()

    def _seamless(self, group: list[sympy.Symbol], part: sympy.Symbol, addresses: Sequence[Affine]) -> bool:
        length = product(self._parts[inner] for inner in group)
        for address in addresses:
            if part in address.nonlinear or any(inner in address.nonlinear for inner in group):
                return False
            step = address.strides.get(group[0], sympy.S.Zero)
            if not equal(address.strides.get(part, sympy.S.Zero), product([step, length])):
                return False
        return True

    # -- addresses ----------------------------------------------------------------------------------------------------

    def _addresses(self, nodes: Sequence[Any]) -> list[sympy.Expr]:
        found: dict[sympy.Expr, None] = {}
        for node in nodes:
            variables = self.index_variables(node.get_ranges())
            found.update(dict.fromkeys(node._body.indexing_from_args(variables).values()))
        return [self._in_parts(address) for address in found]

    def divides(self, nodes: Sequence[Any]) -> bool:
        """Whether some address of `nodes` has a `//` or `%` that no split point removes."""
        return any(affine(address, self._parts).nonlinear for address in self._addresses(nodes))

    def _in_parts(self, address: sympy.Expr) -> sympy.Expr:
        address = written_out(sympy.sympify(address))
        if address.has(Identity):
            address = address.replace(Identity, lambda inner: inner)
        simple = V.graph.sizevars.simplify_with_ranges(address, self._parts)
        if simple.has(FloorDiv, ModularIndexing):  # some that change nothing are left, by torch 2.11 more than later
            simple = _ANYWHERE.without_divisions(simple, self._parts)
        return simple

    def of_result(self, address: sympy.Expr) -> sympy.Expr:
        """Returns the address of a reduction's result: the same for all reduced elements, even if loops that were given
        another shape name their indices in it, as in `(r0 + x * n) // n`.

        Both addresses are in the symbols of `index_variables`.
        """
        zeros = dict.fromkeys((axis.symbol for axis in self.reduction), sympy.S.Zero)
        return sympy_subs(self.simplify(address), zeros)

    def index_variables(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        """Returns the indices of a loop nest with these (pointwise, reduction) lengths, as expressions of this kernel's
        parts.

        Raises AssertionError if the nest does not have the kernel's number of elements.
        """
        variables = []
        for stride, length in self._split_points.dimensions(lengths):
            first = self._split_points.position_of(stride)
            last = self._split_points.position_of(product([stride, length]))
            if equal(length, sympy.S.One):
                variables.append(sympy.S.Zero)
            elif first is not None and last is not None:
                # By position: if a guard makes two sizes equal, one of them is not known to have the other's divisors.
                parts = list(self._parts)[first:last]
                steps = [quotient(point, self._split_points.all[first]) for point in self._split_points.all[first:last]]
                variables.append(sympy.Add(*(part * step for part, step in zip(parts, steps, strict=True))))
            else:
                flat = sympy.Add(
                    *(part * point for part, point in zip(self._parts, self._split_points.all, strict=False))
                )
                variables.append(ModularIndexing(flat, stride, length))
        count = len(lengths[0])
        return [variables[:count], variables[count:]]

    def is_simplified(self, address: sympy.Expr) -> bool:
        """Whether `address` is in the axes' symbols already."""
        return self._parts.keys().isdisjoint(address.free_symbols)

    def simplify(self, address: sympy.Expr) -> sympy.Expr:
        """Returns `address`, given in the symbols of `index_variables`, in the axes' symbols."""
        if address not in self._simplified:
            self._simplified[address] = self._in_axes(address)
        return self._simplified[address]

    def _in_axes(self, address: sympy.Expr) -> sympy.Expr:
        address = self._in_parts(address)
        taken = affine(address, self._parts)
        replaced: dict[sympy.Symbol, sympy.Expr] = {}
        for group, axis in self._joined:
            if len(group) == 1 or (
                not taken.nonlinear.intersection(group)
                and all(self._seamless(group[:place], group[place], [taken]) for place in range(1, len(group)))
            ):
                replaced |= dict.fromkeys(group[1:], sympy.S.Zero) | {group[0]: axis.symbol}
                continue
            inner = sympy.S.One
            for part in group:
                replaced[part] = ModularIndexing(axis.symbol, inner, self._parts[part])
                inner = product([inner, self._parts[part]])
        return sympy_subs(address, replaced)

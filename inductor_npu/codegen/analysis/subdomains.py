"""Subdomains of a kernel's axes, split where a predicate on indices changes, as it does between the tensors of a
concatenation.

Inductor expresses a concatenation, a padding or a write to a slice as one loop in which each element selects its
source. Split where the selections change, each subdomain of the loop is a plain copy of one tensor, or a constant. It
has no predicates, loads nothing but what it needs, and often has axes that cross memory without a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from inductor_npu.codegen.analysis import short_row_ends
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.predicates import PredicateFolding
from inductor_npu.codegen.analysis.strided_ranges import LARGEST_STEP
from inductor_npu.codegen.analysis.trace import Access, Trace, trace
from inductor_npu.codegen.index.affine import Affine, affine, on_one_axis
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.providers import current_target

# More subdomains than this, or more operators in all of them, are too much text for what they save. With 4 subdomains
# programs of the corpus take 0.4% more cycles, with a quarter of the operators two of them are slower; more of either
# changes no kernel (`python -m corpus.thresholds`).
_MOST_SECTIONS = 9
_MOST_OPERATORS = 2500

Ranges = dict[sympy.Symbol, tuple[sympy.Expr, sympy.Expr]]

# A split point: an axis, and the index at which its next subdomain begins.
SplitPoint = tuple[Axis, sympy.Expr]


class Subdomain(Axes):
    """The axes `whole` of a kernel, of which those in `ranges` go from a start for a length; all others from end to
    end.

    `ranges` has (start, length) by the axes' symbols. In the result of `simplify` an axis counts from the start of its
    subdomain; an axis of a single element disappears. `joined` are pairs of an axis and the next inner one that are
    merged, under the name of the inner one; the innermost pair comes first.
    """

    def __init__(self, whole: Axes, ranges: Ranges, joined: Sequence[tuple[Axis, Axis]] = ()) -> None:
        self.whole = whole
        self.elements = whole.elements
        self.ranges = ranges
        self.joined = joined
        self._simplified: dict[sympy.Expr, sympy.Expr] = {}
        self.reduction = whole.reduction
        self.pointwise = [
            replace(axis, length=ranges[axis.symbol][1]) if axis.symbol in ranges else axis for axis in whole.pointwise
        ]
        self._moved = {symbol: symbol + start for symbol, (start, _) in ranges.items() if start != 0}
        for axis in self.pointwise[:-1]:
            if axis.length == 1:
                self.pointwise.remove(axis)
                self._moved[axis.symbol] = ranges.get(axis.symbol, (sympy.S.Zero,))[0]
        for outer, inner in joined:
            one = _one(outer, inner)
            self.pointwise = [one if axis == inner else axis for axis in self.pointwise if axis != outer]

    @property
    def lengths_in_indices(self) -> dict[sympy.Symbol, sympy.Expr]:
        return self.whole.lengths_in_indices

    def index_variables(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        return self.whole.index_variables(lengths)

    def is_simplified(self, address: sympy.Expr) -> bool:
        return self.whole.is_simplified(address)

    def simplify(self, address: sympy.Expr) -> sympy.Expr:
        if self.is_simplified(address):
            return address
        if address not in self._simplified:
            self._simplified[address] = self._in_axes(address)
        return self._simplified[address]

    def _in_axes(self, address: sympy.Expr) -> sympy.Expr:
        address = sympy.expand(sympy_subs(self.whole.simplify(address), self._moved))
        for outer, inner in self.joined:
            if _is_seamless(affine(address, [outer.symbol, inner.symbol]), outer, inner):
                address = sympy_subs(address, {outer.symbol: sympy.S.Zero})
            else:
                parts = FloorDiv(inner.symbol, inner.length), ModularIndexing(inner.symbol, 1, inner.length)
                address = sympy_subs(address, dict(zip((outer.symbol, inner.symbol), parts, strict=True)))
        return address

    def split(self, axis: Axis, at: sympy.Expr) -> list[Subdomain]:
        """Splits this subdomain before index `at` of one of its axes."""
        return [self.part(axis, sympy.S.Zero, at), self.part(axis, at, axis.length)]

    def part(self, axis: Axis, start: sympy.Expr, end: sympy.Expr) -> Subdomain:
        """The part of this subdomain from index `start` to `end` (exclusive) of one of its axes."""
        before = self.ranges[axis.symbol][0] if axis.symbol in self.ranges else sympy.S.Zero
        part = (sympy.expand(before + start), sympy.expand(end - start))
        return Subdomain(self.whole, {**self.ranges, axis.symbol: part})

    def merged(self, addresses: Sequence[Affine]) -> Subdomain:
        """This subdomain, with those axes merged that all of `addresses` cross without a gap."""
        joined: list[tuple[Axis, Axis]] = []
        inner = self.pointwise[-1] if self.pointwise else None
        for outer in reversed(self.pointwise[:-1]):
            assert inner is not None
            if all(_is_seamless(address, outer, inner) for address in addresses):
                joined.append((outer, inner))
                inner = _one(outer, inner)
            else:
                inner = outer
        return Subdomain(self.whole, self.ranges, joined) if joined else self


def _one(outer: Axis, inner: Axis) -> Axis:
    return replace(inner, length=sympy.expand(outer.length * inner.length))


def _is_seamless(address: Affine, outer: Axis, inner: Axis) -> bool:
    if address.nonlinear & {outer.symbol, inner.symbol}:
        return False
    steps = [address.strides.get(axis.symbol, sympy.S.Zero) for axis in (outer, inner)]
    return V.graph.sizevars.statically_known_equals(steps[0], sympy.expand(steps[1] * inner.length))


@dataclass(frozen=True)
class SubdomainLoop:
    """What one loop over tiles computes: all of `axes`, with predicates as they are in `known`.

    A tile that holds whole rows along the axis `along` may be written as `parts` instead, one after the other by the
    same program.
    """

    axes: Subdomain
    known: Subdomain
    parts: tuple[SubdomainLoop, ...] = ()
    along: Axis | None = None


def subdomain_loops(nodes: Sequence[Any], axes: Axes) -> list[SubdomainLoop]:
    """Returns the subdomains into which predicates split the pointwise axes of a kernel of `nodes`, in the order of its
    loops; empty if there is nothing to split.
    """
    if not any(node._body.has_op(name) for node in nodes for name in ("index_expr", "value_expr")):
        return []
    most = min(_MOST_SECTIONS, _MOST_OPERATORS // sum(_operators_of(node._body) for node in nodes))
    unsplit, sections = [Subdomain(axes, {})], list[SubdomainLoop]()
    while unsplit:
        subdomain = unsplit.pop(0)
        split_points: list[SplitPoint] = []
        traced = trace_of_subdomain(nodes, SubdomainLoop(subdomain, subdomain), split_points)
        possible = [
            split_point for split_point in split_points if not _makes_short_rows(split_point, traced, subdomain.lengths)
        ]
        if possible:
            outermost = min(possible, key=lambda split_point: subdomain.pointwise.index(split_point[0]))
            unsplit = [*subdomain.split(*outermost), *unsplit]
        else:
            sections.append(_with_short_row_ends(nodes, subdomain, split_points, traced) or _plain(subdomain, traced))
        if len(unsplit) + sum(max(1, len(section.parts)) for section in sections) > most:
            return []
    return sections if len(sections) > 1 or sections[0].parts else []


def _operators_of(body: Any) -> int:
    return sum(len(block.graph.nodes) for block in (body.root_block, *body.subblocks.values()))


def _plain(subdomain: Subdomain, traced: Trace) -> SubdomainLoop:
    addresses = [access.address for access in traced.accesses]
    return SubdomainLoop(subdomain.merged([*addresses, *traced.indices]), subdomain)


def _with_short_row_ends(
    nodes: Sequence[Any], row: Subdomain, split_points: Sequence[SplitPoint], traced: Trace
) -> SubdomainLoop | None:
    """`row` in parts between `split_points`, of which some are widened, as its ends are short; None if that is not
    possible.
    """
    numbers = {int(at) for axis, at in split_points if isinstance(at, sympy.Integer)}
    if len({axis for axis, _ in split_points}) != 1 or len(numbers) < len({at for _, at in split_points}):
        return None
    along = split_points[0][0]
    if not isinstance(along.length, sympy.Integer) or not short_row_ends.may_be_written_twice(nodes):
        return None
    plain = _plain(row, traced)
    if any(inner == along for _, inner in plain.axes.joined):
        return None
    sizes = [access.item_size for access in traced.accesses if access.unit_axis() == along.symbol]
    if not sizes:
        return None
    parts = []
    for part in short_row_ends.row_parts(
        sorted(numbers), int(along.length), -(-current_target().burst_bytes // min(sizes))
    ):
        known, wide = (row.part(along, *map(sympy.Integer, ends)) for ends in ((part.start, part.end), part.wide))
        left: list[SplitPoint] = []
        inside = trace_of_subdomain(nodes, SubdomainLoop(wide, known), left)
        if left or (part.is_short and not short_row_ends.stay_inside(inside.accesses, wide.pointwise)):
            return None
        parts.append(SubdomainLoop(Subdomain(wide.whole, wide.ranges, plain.axes.joined), known))
    return replace(plain, parts=tuple(parts), along=along) if parts else None


def trace_of_subdomain(
    nodes: Sequence[Any], section: SubdomainLoop, split_points: list[SplitPoint] | None = None
) -> Trace:
    """Returns what a kernel of `nodes` does in `section`; the split points that predicates ask for are appended to
    `split_points`.
    """

    def on_unknown(difference: sympy.Expr, equality: bool) -> None:
        if split_points is not None:
            split_points.extend(_split_points_of(difference, equality, section.known))

    return trace(nodes, section.axes, lambda tracer: PredicateFolding(tracer, section.known, on_unknown))


def _split_points_of(difference: sympy.Expr, equality: bool, subdomain: Subdomain) -> Iterator[SplitPoint]:
    """The split points where `difference` begins or ceases to be at least 0 (with `equality`: to be 0), along the one
    axis that it depends on.
    """
    axes = {axis.symbol: axis for axis in subdomain.pointwise}
    lengths = subdomain.lengths
    taken = affine(difference if equality else on_one_axis(difference, lengths), lengths)
    if taken.nonlinear or len(taken.strides) != 1:
        return
    symbol, stride = next(iter(taken.strides.items()))
    if symbol not in axes or not isinstance(stride, sympy.Integer):
        return
    length, sizes = axes[symbol].length, V.graph.sizevars
    for at in _changes(int(stride), taken.offset, equality):
        if at.atoms(sympy.Function):
            continue  # the launch, too, has to say how many tiles there are: with sums and products
        inside = sizes.statically_known_leq(0, at) and sizes.statically_known_leq(at, length)
        at_end = sizes.statically_known_equals(at, 0) or sizes.statically_known_equals(at, length)
        if inside and not at_end:
            yield axes[symbol], at


def _changes(stride: int, offset: sympy.Expr, equality: bool) -> list[sympy.Expr]:
    """The indices at which `stride * index + offset` begins or ceases to be at least 0 (with `equality`: to be 0)."""
    if abs(stride) != 1:
        if equality or not isinstance(offset, sympy.Integer):
            return []
        # From the least index on with index >= -offset / stride, or from the one behind the last.
        return [sympy.Integer(-(int(offset) // stride) if stride > 0 else int(offset) // -stride + 1)]
    if equality:
        return [sympy.expand(-stride * offset), sympy.expand(-stride * offset + 1)]
    return [-offset if stride > 0 else sympy.expand(offset + 1)]


def _makes_short_rows(split_point: SplitPoint, traced: Trace, lengths: Mapping[sympy.Symbol, sympy.Expr]) -> bool:
    """Whether `split_point` leaves rows of memory that are shorter than a burst, be it that all of their elements are
    accessed or every second to eighth.
    """
    axis, at = split_point
    shortest = min(hint(at), hint(axis.length - at))
    for access in traced.accesses:
        neighbours = _neighbours(access, axis, lengths)
        if neighbours > 1 and access.item_size * neighbours * shortest < current_target().burst_bytes:
            return True
    rows = ((access.item_size, access.row()) for access in traced.accesses)
    return any(
        row[0] == axis.symbol and row[1] <= LARGEST_STEP and size * shortest * row[1] < current_target().burst_bytes
        for size, row in rows
        if row is not None
    )


def _neighbours(access: Access, axis: Axis, lengths: Mapping[sympy.Symbol, sympy.Expr]) -> int:
    """How many elements are contiguous for each index along `axis` and follow those of the index before; 0 if there are
    gaps, or that is unknown.
    """
    steps = access.address.strides
    if (
        access.indirect
        or axis.symbol not in steps
        or not all(isinstance(step, sympy.Integer) for step in steps.values())
    ):
        return 0
    own = abs(int(steps[axis.symbol]))
    inner = [symbol for symbol, step in steps.items() if abs(int(step)) < own]
    return own if math.prod(hint(lengths[symbol]) for symbol in inner) == own else 0

"""Pieces of a kernel's axes: where a condition on indices changes, as it does between the tensors of a concatenation.

Inductor writes a concatenation, a padding or a write to a slice as one loop in which each element selects what it is.
Cut where the selections change, each piece of the loop is a plain copy of one tensor, or a constant: it has no
conditions, loads nothing but what it needs, and often has axes that run through memory without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import sympy
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from inductor_npu.codegen.axes import Affine, Axes, Axis, affine, hint
from inductor_npu.codegen.conditions import Conditions
from inductor_npu.codegen.trace import Trace, trace

# More pieces than this are too much text for what they save.
_MOST_PIECES = 9

# Bytes that a row in memory has at least, for copies to and from the Unified Buffer in whole blocks.
_SHORTEST_ROW = 32

Ranges = dict[sympy.Symbol, tuple[sympy.Expr, sympy.Expr]]

# An axis, and the index at which its next piece begins.
Cut = tuple[Axis, sympy.Expr]


class Piece(Axes):
    """The axes `whole` of a kernel, of which some go from a start for a length; all others from end to end.

    `ranges` has start and length by the axes' symbols. In what `simplify` gives an axis counts from the start of its
    piece; one of a single element is none. `joined` are pairs of an axis and the next inner one that are one axis,
    named like the inner one; the innermost pair is the first.
    """

    def __init__(self, whole: Axes, ranges: Ranges, joined: Sequence[tuple[Axis, Axis]] = ()) -> None:
        self.whole = whole
        self.ranges = ranges
        self.joined = joined
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

    def index_variables(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        return self.whole.index_variables(lengths)

    def is_simplified(self, address: sympy.Expr) -> bool:
        return self.whole.is_simplified(address)

    def simplify(self, address: sympy.Expr) -> sympy.Expr:
        if self.is_simplified(address):
            return address
        address = sympy.expand(sympy_subs(self.whole.simplify(address), self._moved))
        for outer, inner in self.joined:
            if _is_seamless(affine(address, [outer.symbol, inner.symbol]), outer, inner):
                address = sympy_subs(address, {outer.symbol: sympy.S.Zero})
            else:
                parts = FloorDiv(inner.symbol, inner.length), ModularIndexing(inner.symbol, 1, inner.length)
                address = sympy_subs(address, dict(zip((outer.symbol, inner.symbol), parts, strict=True)))
        return address

    def cut(self, axis: Axis, at: sympy.Expr) -> list[Piece]:
        """The parts of this piece before and from index `at` of one of its axes."""
        start, length = self.ranges.get(axis.symbol, (sympy.S.Zero, axis.length))
        spans = (start, at), (sympy.expand(start + at), sympy.expand(length - at))
        return [Piece(self.whole, {**self.ranges, axis.symbol: span}) for span in spans]

    def with_seams(self) -> Piece:
        """This piece before `without_seams`: in these axes conditions are told to hold or not."""
        return Piece(self.whole, self.ranges)

    def without_seams(self, addresses: Sequence[Affine]) -> Piece:
        """This piece, with those axes joined which all of `addresses` cross without a gap."""
        joined: list[tuple[Axis, Axis]] = []
        inner = self.pointwise[-1] if self.pointwise else None
        for outer in reversed(self.pointwise[:-1]):
            assert inner is not None
            if all(_is_seamless(address, outer, inner) for address in addresses):
                joined.append((outer, inner))
                inner = _one(outer, inner)
            else:
                inner = outer
        return Piece(self.whole, self.ranges, joined) if joined else self


def _one(outer: Axis, inner: Axis) -> Axis:
    return replace(inner, length=sympy.expand(outer.length * inner.length))


def _is_seamless(address: Affine, outer: Axis, inner: Axis) -> bool:
    if address.nonlinear & {outer.symbol, inner.symbol}:
        return False
    steps = [address.strides.get(axis.symbol, sympy.S.Zero) for axis in (outer, inner)]
    return V.graph.sizevars.statically_known_equals(steps[0], sympy.expand(steps[1] * inner.length))


def pieces_of(nodes: Sequence[Any], axes: Axes) -> list[Piece]:
    """The pieces into which conditions cut the pointwise axes of a kernel made of `nodes`, in the order of its loops;
    none if there is nothing to cut.
    """
    if not any(node._body.has_op(name) for node in nodes for name in ("index_expr", "value_expr")):
        return []
    uncut, pieces = [Piece(axes, {})], []
    while uncut:
        piece = uncut.pop(0)
        cuts: list[Cut] = []
        traced = trace_of_piece(nodes, piece, cuts)
        cuts = [cut for cut in cuts if not _makes_short_rows(cut, traced)]
        if cuts:
            outermost = min(cuts, key=lambda cut: piece.pointwise.index(cut[0]))
            uncut = [*piece.cut(*outermost), *uncut]
        else:
            addresses = [access.address for access in traced.accesses]
            pieces.append(piece.without_seams([*addresses, *traced.indices]))
        if len(pieces) + len(uncut) > _MOST_PIECES:
            return []
    return pieces if len(pieces) > 1 else []


def trace_of_piece(nodes: Sequence[Any], piece: Piece, cuts: list[Cut] | None = None) -> Trace:
    """What a kernel made of `nodes` does in `piece`; `cuts` gets those that conditions ask for."""

    def on_unknown(difference: sympy.Expr, equality: bool) -> None:
        if cuts is not None:
            cuts.extend(_cuts(difference, equality, piece))

    return trace(nodes, piece, lambda tracer: Conditions(tracer, piece.with_seams(), on_unknown))


def _cuts(difference: sympy.Expr, equality: bool, piece: Piece) -> Iterator[Cut]:
    """Where `difference` begins or ceases to be at least 0, or 0, along the one axis that it depends on."""
    axes = {axis.symbol: axis for axis in piece.pointwise}
    taken = affine(difference, [*axes, *(axis.symbol for axis in piece.reduction)])
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
    """The indices at which `stride * index + offset` begins or ceases to be at least 0, or 0."""
    if abs(stride) != 1:
        if equality or not isinstance(offset, sympy.Integer):
            return []
        # From the least index on with index >= -offset / stride, or from the one behind the last.
        return [sympy.Integer(-(int(offset) // stride) if stride > 0 else int(offset) // -stride + 1)]
    if equality:
        return [sympy.expand(-stride * offset), sympy.expand(-stride * offset + 1)]
    return [-offset if stride > 0 else sympy.expand(offset + 1)]


def _makes_short_rows(cut: Cut, traced: Trace) -> bool:
    """Whether rows of memory would be shorter before or behind `cut` than what is copied at once."""
    axis, at = cut
    shortest = min(hint(at), hint(axis.length - at))
    rows = (access.item_size for access in traced.accesses if access.unit_axis() == axis.symbol)
    return any(size * shortest < _SHORTEST_ROW for size in rows)

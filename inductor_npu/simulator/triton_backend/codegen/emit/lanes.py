"""Conversions between the forms of a chunk's value, and arithmetic that keeps the cheapest one."""

from __future__ import annotations

import math

from ..forms.lane import Address, Index, Lane, Prefix, Uniform, Vector
from ..forms.types import BITS, limits, llvm_type
from ..forms.value import Val
from .mask_edges import MaskEdges
from .scalars import Scalars

MAX_INDEX_FACTOR = 1 << 20  # a larger factor is a hash, not an index: its products wrap


class Lanes:
    """Writes conversions between the forms, and masks and indices in the cheapest of them."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars, self.b = scalars, scalars.b
        self.edges: MaskEdges | None = None  # of the loop whose chunks no mask's edge crosses, while one is written

    def below(self, bound: Val, position: Val, width: int, inclusive: bool = False) -> Prefix:
        """The lanes of a chunk that counts up from `position` that are below `bound`, or not above it."""
        # The bound itself counts before the clamp: that keeps which lanes are below, not how far they are.
        beyond = self.b.constant("i64", -1 if inclusive else 0)
        outer, inner = position.parts or (None, position)
        near = inner.high < 1 << 30 and inner.low > -(1 << 30)
        if not near or inner.constant is not None or bound.level >= inner.level:
            return Prefix(self.scalars.difference(self.scalars.difference(bound, position), beyond))
        rest = self.scalars.difference(bound if outer is None else self.scalars.difference(bound, outer), beyond)
        return self.before(rest, inner, width)

    def before(self, rest: Val, inner: Val, width: int) -> Prefix:
        """The lanes of a chunk that counts up from `inner`, which are few, before `rest`: a number that is clamped,
        outside of the innermost loop, to what matters.
        """
        low, high, clamped = inner.low, inner.high + width, rest
        if rest.constant is None:
            clamped = self.b.intrinsic("smax", ("i64", 0), (rest, self.b.constant("i64", low)))
            clamped = self.b.intrinsic("smin", ("i64", 0), (clamped, self.b.constant("i64", high))).known(low, high)
        count = self.scalars.subtract(clamped, inner)
        if self.edges is not None and self.edges.ends_at(rest, inner, width):
            count.known(width, max(width, count.high))
        return Prefix(count, (rest, inner))

    def both(self, a: Prefix, b: Prefix, width: int) -> Prefix | None:
        """The lanes of both; None where they do not have the same position."""
        if a.edge is None or b.edge is None or a.edge[1] is not b.edge[1]:
            return None
        return self.before(self.b.intrinsic("smin", ("i64", 0), (a.edge[0], b.edge[0])), a.edge[1], width)

    def where(self, condition: Val, a: Prefix, width: int) -> Prefix | None:
        """The lanes of `a` if a scalar condition holds, else none; None where that changes with the lanes' position."""
        if a.edge is None or condition.level >= a.edge[1].level:
            return None
        rest, inner = a.edge
        return self.before(self.b.select(condition, rest, self.b.constant("i64", inner.low)), inner, width)

    # -- forms -------------------------------------------------------------------------------------------------------
    def scalar(self, lane: Lane) -> Val:
        """The scalar that all lanes of a uniform value share."""
        if isinstance(lane, Uniform):
            return lane.val
        if isinstance(lane, Index):
            return self.scalars.narrowed(lane.first, lane.element)
        if isinstance(lane, Address):
            return lane.pointer
        raise TypeError(f"{type(lane).__name__} is not uniform")

    def vector(self, lane: Lane, width: int) -> Val:
        """The lanes as a vector of `width` elements."""
        if isinstance(lane, Vector):
            return lane.val
        if isinstance(lane, Uniform):
            return self.b.splat(lane.val, width)
        if isinstance(lane, Index):
            first = self.b.splat(self.scalars.narrowed(lane.first, lane.element), width)
            if lane.step == 0:
                return first
            if lane.first.constant is not None:
                return self.b.iota(lane.element, width, lane.step, lane.first.constant)
            return self.b.binary("add", first, self.b.iota(lane.element, width, lane.step))
        if isinstance(lane, Address):
            if lane.step == 0:
                return self.b.splat(lane.pointer, width)
            offsets = self.b.iota("i64", width, lane.step)
            return self.b.pure(
                "ptr",
                width,
                f"getelementptr i8, {lane.pointer}, {llvm_type('i64', width)} {offsets.text}",
                lane.pointer,
            )
        return self._prefix_vector(lane, width)

    def _prefix_vector(self, lane: Prefix, width: int) -> Val:
        count = lane.count
        if count.low >= width:
            on = self.b.constant("i1", True, width)
            on.level = count.level  # outside of the loop it need not hold
            return on
        if count.low >= -(1 << 31) and count.high < 1 << 31:
            small = self.b.cast("trunc", count, "i32")
            return self.b.compare("icmp slt", self.b.iota("i32", width), self.b.splat(small, width))
        zero, full = self.b.constant("i64", 0), self.b.constant("i64", width)
        count = self.b.intrinsic("smin", ("i64", 0), (self.b.intrinsic("smax", ("i64", 0), (count, zero)), full))
        small = self.b.cast("trunc", count, "i32")
        return self.b.compare("icmp ult", self.b.iota("i32", width), self.b.splat(small, width))

    def index(self, lane: Lane) -> Index | None:
        """A uniform integer or an index as an Index; None where it is neither."""
        if isinstance(lane, Index):
            return lane
        if isinstance(lane, Uniform) and lane.val.element not in ("ptr", "i1") and lane.val.lanes == 0:
            return Index(self.scalars.widened(lane.val), 0, lane.val.element)
        return None

    def extended(self, lane: Lane, width: int) -> Index | Vector:
        """A signed integer's lanes as i64."""
        index = self.index(lane)
        known = None if index is None else self.settled(index, width)
        if known is not None:
            return Index(known.first, known.step, "i64")
        vector = self.vector(lane, width)
        return Vector(vector if BITS[vector.element] == 64 else self.b.cast("sext", vector, "i64"))

    def index_add(self, a: Index, b: Index) -> Index:
        return Index(self.scalars.add(a.first, b.first), a.step + b.step, a.element)

    def index_subtract(self, a: Index, b: Index) -> Index:
        return Index(self.scalars.subtract(a.first, b.first), a.step - b.step, a.element)

    def index_multiply(self, a: Index, b: Index) -> Index | None:
        """None where the step would not be a constant, or the factor is none of an index."""
        if a.step and b.step:
            return None
        if b.step:
            a, b = b, a
        factor = b.first.constant
        if factor is not None and abs(factor) > MAX_INDEX_FACTOR:
            return None
        if a.step and factor is None:
            return None
        return Index(self.scalars.multiply(a.first, b.first), a.step * int(factor or 0), a.element)

    def index_within(self, a: Index, divisor: int, width: int) -> bool:
        """Whether all lanes lie between the same two multiples of `divisor`, and none is negative."""
        return a.step >= 0 and a.first.low >= 0 and a.step * (width - 1) < math.gcd(a.first.divisor, divisor)

    # -- numbers that wrap -------------------------------------------------------------------------------------------
    def settled(self, index: Index, width: int) -> Index | None:
        """The same lanes with `first` as the number that the type holds, where the other lanes follow from it; None
        where the type may wrap between two lanes of a chunk of `width`.
        """
        first, spread = self.scalars.held_by(index.first, index.element), index.step * max(width - 1, 0)
        least, most = limits(index.element)
        if first.low + min(spread, 0) < least or first.high + max(spread, 0) > most:
            return None
        return index if first is index.first else Index(first, index.step, index.element)

    def offset(self, index: Index, width: int) -> Val:
        """What moves an address for the first lane, as i64, so that the other lanes' addresses are `step` apart.

        It is exact but for addresses half of what the type can count before their pointer: there the type may wrap
        between two elements of one tile, and no tensor reaches from one to the other.
        """
        below = self.b.constant("i64", min(index.step, 0) * max(width - 1, 0))
        lowest = self.scalars.add(index.first, below)
        return self.scalars.subtract(self.scalars.near(lowest, index.element), below)

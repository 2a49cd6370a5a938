"""The forms that a chunk's value takes, and arithmetic that keeps the cheapest one.

A chunk is `width` consecutive positions of one axis of a tile. A value at a chunk is

- `Uniform`: the same scalar in all lanes;
- `Index`: integers `first + step * lane`, the arithmetic of tile coordinates: of that sum, in which `first` is a 64-bit
  scalar, a lane holds the low bits that its type has. `settled` tells where that is the sum itself;
- `Address`: pointers `pointer + step * lane`, step in bytes;
- `Prefix`: a mask that holds in the first `count` lanes, where count may be negative or beyond the width; `edge`, if
  known, is a number outside of the innermost loop and one that counts in it, of which count is the difference;
- `Vector`: a vector of `width` elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .builder import Builder, Val
from .types import BITS, limits, llvm_type

if TYPE_CHECKING:
    from .whole_chunks import WholeChunks

MAX_INDEX_FACTOR = 1 << 20  # a larger factor is a hash, not an index: its products wrap
TILE_REACH = 1 << 27  # elements between two addresses of one tile, along one loop of its nest


@dataclass(eq=False, slots=True)
class Uniform:
    """See the module's docstring, as for all forms."""

    val: Val

    @property
    def level(self) -> int:
        return self.val.level


@dataclass(eq=False, slots=True)
class Index:
    first: Val
    step: int
    element: str

    @property
    def level(self) -> int:
        return self.first.level


@dataclass(eq=False, slots=True)
class Address:
    pointer: Val
    step: int

    @property
    def level(self) -> int:
        return self.pointer.level


@dataclass(eq=False, slots=True)
class Prefix:
    count: Val
    edge: tuple[Val, Val] | None = None

    @property
    def level(self) -> int:
        return self.count.level


@dataclass(eq=False, slots=True)
class Vector:
    val: Val

    @property
    def level(self) -> int:
        return self.val.level


Lane = Uniform | Index | Address | Prefix | Vector


def is_uniform(lane: Lane) -> bool:
    """Whether all lanes are known to be equal."""
    return isinstance(lane, Uniform) or (isinstance(lane, (Index, Address)) and lane.step == 0)


class Lanes:
    """Conversions between the forms, and integer arithmetic on 64-bit scalars with facts."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.whole: WholeChunks | None = None  # of the loop whose chunks no edge crosses, while one is written

    # -- scalars with facts ------------------------------------------------------------------------------------------
    def add(self, a: Val, b: Val) -> Val:
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, a.constant + b.constant)
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        outer, inner = (a, b) if a.level < b.level else (b, a)
        if outer.level < inner.level and inner.parts is not None and outer.level < inner.parts[1].level:
            return self.add(self.add(inner.parts[0], outer), inner.parts[1])
        val = self.b.binary("add", a, b)
        if outer.level < inner.level and outer.constant is None:
            val.parts = (outer, inner)
        for term, constant in ((a, b.constant), (b, a.constant)):
            if constant is not None:
                val.moved = (term, int(constant))
        return val.known(a.low + b.low, a.high + b.high, math.gcd(a.divisor, b.divisor))

    def subtract(self, a: Val, b: Val) -> Val:
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, a.constant - b.constant)
        if b.constant == 0:
            return a
        val = self.b.binary("sub", a, b)
        return val.known(a.low - b.high, a.high - b.low, math.gcd(a.divisor, b.divisor))

    def difference(self, a: Val, b: Val) -> Val:
        """a - b of i64, the nearest number to it where that would wrap."""
        least, most = limits("i64")
        if least <= a.low - b.high and a.high - b.low <= most:
            return self.subtract(a, b)
        return self.b.intrinsic("ssub.sat", ("i64", 0), (a, b))

    def multiply(self, a: Val, b: Val) -> Val:
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, a.constant * b.constant)
        for x, y in ((a, b), (b, a)):
            if x.constant == 1:
                return y
            if x.constant == 0:
                return x
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self.b.binary("mul", a, b).known(min(corners), max(corners), a.divisor * b.divisor)

    def divide(self, a: Val, b: Val) -> Val:
        """Toward zero; `b` is not zero and not -1 where `a` may be the least number (see `safe_divisor`)."""
        if b.constant == 1:
            return a
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, _truncated(a.constant, b.constant))
        nonnegative = a.low >= 0 and b.low > 0
        if nonnegative and a.low // b.high == a.high // b.low:
            return self.b.constant(a.element, a.low // b.high)
        if nonnegative and _stays_within(a, b):
            return self.divide(a.parts[0], b)
        val = self.b.binary("udiv" if nonnegative else "sdiv", a, b)
        divisor = abs(a.divisor // b.constant) if b.constant and a.divisor % b.constant == 0 else 1
        return val.known(a.low // b.high, a.high // b.low, divisor) if nonnegative else val

    def remainder(self, a: Val, b: Val) -> Val:
        """With the sign of `a`; `b` as for `divide`."""
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, a.constant - _truncated(a.constant, b.constant) * b.constant)
        nonnegative = a.low >= 0 and b.low > 0
        if nonnegative and a.high < b.low:
            return a
        if nonnegative and b.constant and a.low // b.constant == a.high // b.constant:
            return self.subtract(a, self.b.constant(a.element, a.low // b.constant * b.constant))
        if b.constant and a.divisor % b.constant == 0:
            return self.b.constant(a.element, 0)
        if nonnegative and _stays_within(a, b):
            return self.add(self.remainder(a.parts[0], b), a.parts[1])
        val = self.b.binary("urem" if nonnegative else "srem", a, b)
        return val.known(0, b.high - 1, math.gcd(a.divisor, b.divisor)) if nonnegative else val

    def pointer(self, base: Val, elements: Val, size: int) -> Val:
        """`base` moved by an i64 number of elements of `size` bytes; what a loop does not change is added outside of
        it.
        """
        if elements.constant == 0:
            return base
        if elements.parts is not None and base.level < elements.level:
            outer, inner = elements.parts
            return self.pointer(self.pointer(base, outer, size), inner, size)
        unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size]
        return self.b.pure("ptr", 0, f"getelementptr {unit}, {base}, {elements}", base, elements)

    def below(self, bound: Val, position: Val, width: int, inclusive: bool = False) -> Prefix:
        """The lanes of a chunk that counts up from `position` that are below `bound`, or not above it."""
        # The bound itself counts before the clamp: that keeps which lanes are below, not how far they are.
        beyond = self.b.constant("i64", -1 if inclusive else 0)
        outer, inner = position.parts or (None, position)
        near = inner.high < 1 << 30 and inner.low > -(1 << 30)
        if not near or inner.constant is not None or bound.level >= inner.level:
            return Prefix(self.difference(self.difference(bound, position), beyond))
        rest = self.difference(bound if outer is None else self.difference(bound, outer), beyond)
        return self.before(rest, inner, width)

    def before(self, rest: Val, inner: Val, width: int) -> Prefix:
        """The lanes of a chunk that counts up from `inner`, which are few, before `rest`: a number that is clamped,
        outside of the innermost loop, to what matters.
        """
        low, high, clamped = inner.low, inner.high + width, rest
        if rest.constant is None:
            clamped = self.b.intrinsic("smax", ("i64", 0), (rest, self.b.constant("i64", low)))
            clamped = self.b.intrinsic("smin", ("i64", 0), (clamped, self.b.constant("i64", high))).known(low, high)
        count = self.subtract(clamped, inner)
        if self.whole is not None and self.whole.ends_at(rest, inner, width):
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

    def is_whole(self, lane: Lane | None, width: int) -> bool:
        """Whether a mask holds in all lanes."""
        return isinstance(lane, Prefix) and lane.count.low >= width > 0

    def widened(self, val: Val) -> Val:
        """A signed integer scalar as i64."""
        if BITS[val.element] == 64:
            return self.b.retype(val, "i64") if val.element != "i64" else val
        if val.constant is not None:
            return self.b.constant("i64", int(val.constant))
        return self.b.cast("sext", val, "i64").known(val.low, val.high, val.divisor)

    def narrowed(self, val: Val, element: str) -> Val:
        """The low bits of an i64 scalar."""
        if val.constant is not None:
            return self.b.constant(element, val.constant)
        if BITS[element] == 64:
            return self.b.retype(val, element)
        return self.b.cast("trunc", val, element).known(val.low, val.high, val.divisor)

    # -- forms -------------------------------------------------------------------------------------------------------
    def scalar(self, lane: Lane) -> Val:
        """The scalar that all lanes of a uniform value share."""
        if isinstance(lane, Uniform):
            return lane.val
        if isinstance(lane, Index):
            return self.narrowed(lane.first, lane.element)
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
            first = self.b.splat(self.narrowed(lane.first, lane.element), width)
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
            return Index(self.widened(lane.val), 0, lane.val.element)
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
        return Index(self.add(a.first, b.first), a.step + b.step, a.element)

    def index_subtract(self, a: Index, b: Index) -> Index:
        return Index(self.subtract(a.first, b.first), a.step - b.step, a.element)

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
        return Index(self.multiply(a.first, b.first), a.step * int(factor or 0), a.element)

    def index_within(self, a: Index, divisor: int, width: int) -> bool:
        """Whether all lanes lie between the same two multiples of `divisor`, and none is negative."""
        return a.step >= 0 and a.first.low >= 0 and a.step * (width - 1) < math.gcd(a.first.divisor, divisor)

    # -- numbers that wrap -------------------------------------------------------------------------------------------
    def settled(self, index: Index, width: int) -> Index | None:
        """The same lanes with `first` as the number that the type holds, where the other lanes follow from it; None
        where the type may wrap between two lanes of a chunk of `width`.
        """
        first, spread = self._held(index.first, index.element), index.step * max(width - 1, 0)
        least, most = limits(index.element)
        if first.low + min(spread, 0) < least or first.high + max(spread, 0) > most:
            return None
        return index if first is index.first else Index(first, index.step, index.element)

    def _held(self, val: Val, element: str) -> Val:
        """The number that `element` holds of an i64. What a loop does not change is wrapped outside of it."""
        if _fits(val, element):
            return val
        if val.parts is not None:
            outer, inner = val.parts
            total = self.add(self._held(outer, element), inner)
            if _fits(total, element):
                return total
        return self.widened(self.narrowed(val, element))

    def offset(self, index: Index, width: int) -> Val:
        """What moves an address for the first lane, as i64, so that the other lanes' addresses are `step` apart.

        It is exact but for addresses half of what the type can count before their pointer: there the type may wrap
        between two elements of one tile, and no tensor reaches from one to the other.
        """
        below = self.b.constant("i64", min(index.step, 0) * max(width - 1, 0))
        lowest = self.add(index.first, below)
        return self.subtract(self._near(lowest, index.element), below)

    def _near(self, val: Val, element: str) -> Val:
        """The number that `element` holds of an i64, where a loop over a tile counts on from its first."""
        if _fits(val, element):
            return val
        if val.parts is not None:
            outer, inner = val.parts
            start = self.b.constant("i64", inner.low)
            if inner.high - inner.low <= TILE_REACH:
                return self.add(self._near(self.add(outer, start), element), self.subtract(inner, start))
        return self.widened(self.narrowed(val, element))


def _fits(val: Val, element: str) -> bool:
    least, most = limits(element)
    return least <= val.low and val.high <= most


def _stays_within(a: Val, b: Val) -> bool:
    """Whether what the innermost loop adds to `a` never carries it over a multiple of `b`: then the loop divides
    nothing.
    """
    if a.parts is None or b.constant is None:
        return False
    outer, inner = a.parts
    return outer.low >= 0 and inner.low >= 0 and inner.high < math.gcd(outer.divisor, int(b.constant))


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient

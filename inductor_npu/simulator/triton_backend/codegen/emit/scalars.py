"""Integer arithmetic on scalars, which keeps what is known of them: bounds, divisors, what a loop does not change."""

from __future__ import annotations

import math

from ..forms.types import BITS, limits
from ..forms.value import Val
from .builder import Builder

TILE_REACH = 1 << 27  # elements between two addresses of one tile, along one loop of its nest


class Scalars:
    """Writes arithmetic on 64-bit scalars with facts."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

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
        """Toward zero; `b` is not zero, nor -1 where `a` may be the least number (else `Integers.guarded_division`)."""
        if b.constant == 1:
            return a
        if a.constant is not None and b.constant is not None:
            return self.b.constant(a.element, _truncated(a.constant, b.constant))
        nonnegative = a.low >= 0 and b.low > 0
        if nonnegative and a.low // b.high == a.high // b.low:
            return self.b.constant(a.element, a.low // b.high)
        parts = _parts_within(a, b) if nonnegative else None
        if parts is not None:
            return self.divide(parts[0], b)
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
        parts = _parts_within(a, b) if nonnegative else None
        if parts is not None:
            return self.add(self.remainder(parts[0], b), parts[1])
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

    # -- formats -------------------------------------------------------------------------------------------------------
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

    def held_by(self, val: Val, element: str) -> Val:
        """The number that `element` holds of an i64. What a loop does not change is wrapped outside of it."""
        if _fits(val, element):
            return val
        if val.parts is not None:
            outer, inner = val.parts
            total = self.add(self.held_by(outer, element), inner)
            if _fits(total, element):
                return total
        return self.widened(self.narrowed(val, element))

    def near(self, val: Val, element: str) -> Val:
        """The number that `element` holds of an i64, where a loop over a tile counts on from its first."""
        if _fits(val, element):
            return val
        if val.parts is not None:
            outer, inner = val.parts
            start = self.b.constant("i64", inner.low)
            if inner.high - inner.low <= TILE_REACH:
                return self.add(self.near(self.add(outer, start), element), self.subtract(inner, start))
        return self.widened(self.narrowed(val, element))


def _fits(val: Val, element: str) -> bool:
    least, most = limits(element)
    return least <= val.low and val.high <= most


def _parts_within(a: Val, b: Val) -> tuple[Val, Val] | None:
    """The parts of `a` where what the innermost loop adds to it never carries it over a multiple of `b`: then the loop
    divides nothing.
    """
    if a.parts is None or b.constant is None:
        return None
    outer, inner = a.parts
    within = outer.low >= 0 and inner.low >= 0 and inner.high < math.gcd(outer.divisor, int(b.constant))
    return a.parts if within else None


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient

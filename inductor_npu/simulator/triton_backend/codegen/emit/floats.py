"""Float arithmetic: in the format itself, or in f32 and rounded where that has 16 or 8 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..forms.types import BITS, NARROW_FLOATS, is_float
from ..forms.value import Val
from .conversions import Conversions

_CONTRACTED = frozenset({"fadd", "fsub", "fmul"})


class Floats:
    """Writes float arithmetic on scalars and vectors. `fuses`: a product and a sum may round once."""

    def __init__(self, conversions: Conversions, fuses: bool) -> None:
        self.conversions, self.b = conversions, conversions.b
        self._flags = " contract" if fuses else ""

    def apply(self, operands: Sequence[Val], element: str, compute: Callable[..., Val]) -> Val:
        """`compute` on floats; those of 16 and 8 bits are computed in f32 and rounded."""
        if element in NARROW_FLOATS:
            wide = compute(*(self.conversions.extend(v, "f32") for v in operands))
            return wide if not is_float(wide.element) else self.conversions.truncate(wide, element)
        return compute(*operands)

    def binary(self, opcode: str, a: Val, b: Val) -> Val:
        flags = self._flags if opcode in _CONTRACTED else ""
        return self.apply((a, b), a.element, lambda x, y: self.b.binary(opcode + flags, x, y))

    def extremum(self, name: str, a: Val, b: Val) -> Val:
        """`name` is maximum, minimum (NaN if one is), maxnum or minnum (the other if one is)."""
        if name == "maximum" and a.element in ("f32", "f64") and a.bits_are_ordered and b.bits_are_ordered:
            return self._maximum_of_bits(a, b)
        result = self.apply((a, b), a.element, lambda x, y: self.b.intrinsic(name, (x.element, x.lanes), (x, y)))
        if name in ("maximum", "minimum"):
            choose = max if name == "maximum" else min
            (low, high), (other_low, other_high) = _bounds(a), _bounds(b)
            result.bounds = choose(low, other_low), choose(high, other_high)
        return result

    def _maximum_of_bits(self, a: Val, b: Val) -> Val:
        """One instruction, where the host's own maximum of floats has others around it for NaN and for zeros."""
        integer = f"i{BITS[a.element]}"
        larger = self.b.intrinsic("smax", (integer, a.lanes), (self.b.retype(a, integer), self.b.retype(b, integer)))
        result = self.b.retype(larger, a.element)
        result.bits_are_ordered = True
        return result


def _bounds(value: Val) -> tuple[float, float]:
    """What a float lies between unless it is NaN."""
    if value.constant is not None and not math.isnan(value.constant):
        return float(value.constant), float(value.constant)
    return value.bounds or (-math.inf, math.inf)

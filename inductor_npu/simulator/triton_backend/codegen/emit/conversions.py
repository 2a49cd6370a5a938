"""Conversions between number formats, lane by lane, for scalars and vectors alike. None traps, whatever the input."""

from __future__ import annotations

import math

from ..forms.types import BITS, is_float
from ..forms.value import Val
from .builder import Builder


class Conversions:
    """Writes conversions between formats."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

    def _integer(self, like: Val, element: str, number: int) -> Val:
        return self.b.constant(element, number, like.lanes)

    # -- between floats ----------------------------------------------------------------------------------------------
    def extend(self, value: Val, element: str) -> Val:
        """A float in a wider format, exactly."""
        b = self.b
        if value.element == element:
            return value
        if value.element == "bf16":
            wide = b.binary("shl", b.cast("zext", value, "i32"), self._integer(value, "i32", 16))
            value = b.retype(wide, "f32")
        elif value.element == "f8E5M2":
            wide = b.binary("shl", b.cast("zext", value, "i16"), self._integer(value, "i16", 8))
            value = b.retype(wide, "f16")
        elif value.element == "f8E4M3FN":
            value = self._extend_e4m3(value)
        if value.element == element:
            return value
        if element == "bf16":  # from fp8, exact in f32 first
            return self.truncate(self.extend(value, "f32"), "bf16")
        return b.cast("fpext", value, element) if BITS[element] > BITS[value.element] else self.truncate(value, element)

    def _extend_e4m3(self, value: Val) -> Val:
        """E4M3 as f16: shifting the bits in place leaves a number 2**8 too small, also where it is denormal."""
        b = self.b
        wide = b.cast("sext", value, "i16")
        sign = b.binary("and", wide, self._integer(value, "i16", 0x8000))
        magnitude = b.binary(
            "shl", b.binary("and", wide, self._integer(value, "i16", 0x7F)), self._integer(value, "i16", 7)
        )
        bits = b.retype(b.binary("or", sign, magnitude), "f16")
        scaled = b.binary("fmul", b.cast("fpext", bits, "f32"), b.constant("f32", 256.0, value.lanes))
        nan = b.compare(
            "icmp eq", b.binary("and", value, self._integer(value, "i8", 0x7F)), self._integer(value, "i8", 0x7F)
        )
        return b.select(nan, b.constant("f32", math.nan, value.lanes), scaled)

    def truncate(self, value: Val, element: str, toward_zero: bool = False) -> Val:
        """A float in a narrower format, to nearest even or toward zero."""
        b = self.b
        if value.element == element:
            return value
        if value.element in ("bf16", "f8E5M2", "f8E4M3FN") or (value.element == "f16" and element != "f8E5M2"):
            value = self.extend(value, "f32")
            if element == "f32":
                return value
        if value.element == "f64":
            if element == "f32" and not toward_zero:
                return b.cast("fptrunc", value, "f32")
            value = self._f64_to_f32(value, toward_zero)  # so that the second rounding sees what the first lost
            if element == "f32":
                return value
        if value.element == "f16":
            value = b.cast("fpext", value, "f32")
        if element == "f16":
            return self._f32_to_f16_toward_zero(value) if toward_zero else b.cast("fptrunc", value, "f16")
        if element == "bf16":
            return self._f32_to_bf16(value, toward_zero)
        return self._f32_to_fp8(value, element, toward_zero)

    def _f32_to_bf16(self, value: Val, toward_zero: bool) -> Val:
        b = self.b
        bits = b.retype(value, "i32")
        if toward_zero:
            rounded = bits
        else:
            odd = b.binary(
                "and", b.binary("lshr", bits, self._integer(value, "i32", 16)), self._integer(value, "i32", 1)
            )
            rounded = b.binary("add", b.binary("add", bits, odd), self._integer(value, "i32", 0x7FFF))
        high = b.binary("lshr", rounded, self._integer(value, "i32", 16))
        quiet = b.binary(
            "or", b.binary("lshr", bits, self._integer(value, "i32", 16)), self._integer(value, "i32", 0x40)
        )
        nan = b.compare("fcmp uno", value, b.constant("f32", 0.0, value.lanes))
        return b.retype(b.cast("trunc", b.select(nan, quiet, high), "i16"), "bf16")

    def _f64_to_f32(self, value: Val, toward_zero: bool) -> Val:
        """Toward zero, or rounded to odd: a further rounding of that to half the precision or less is as if done at
        once.
        """
        b = self.b
        nearest = b.cast("fptrunc", value, "f32")
        back = b.cast("fpext", nearest, "f64")
        fabs_back = b.intrinsic("fabs", ("f64", value.lanes), (back,))
        fabs_value = b.intrinsic("fabs", ("f64", value.lanes), (value,))
        bits = b.retype(nearest, "i32")
        above = b.compare("fcmp ogt", fabs_back, fabs_value)
        down = b.binary("sub", bits, b.cast("zext", above, "i32"))
        if not toward_zero:
            inexact = b.compare("fcmp one", fabs_back, fabs_value)
            down = b.binary("or", down, b.cast("zext", inexact, "i32"))
        return b.retype(down, "f32")

    def _f32_to_f16_toward_zero(self, value: Val) -> Val:
        b = self.b
        nearest = b.cast("fptrunc", value, "f16")
        back = b.cast("fpext", nearest, "f32")
        above = b.compare(
            "fcmp ogt",
            b.intrinsic("fabs", ("f32", value.lanes), (back,)),
            b.intrinsic("fabs", ("f32", value.lanes), (value,)),
        )
        return b.retype(b.binary("sub", b.retype(nearest, "i16"), b.cast("zext", above, "i16")), "f16")

    def _f32_to_fp8(self, value: Val, element: str, toward_zero: bool) -> Val:
        """Through the f32's bits; values beyond the largest finite number become it (E4M3) or infinity (E5M2), as
        torch does for nearest.
        """
        b = self.b
        mantissa, bias = (3, 7) if element == "f8E4M3FN" else (2, 15)
        shift = 23 - mantissa
        bits = b.retype(value, "i32")

        def const(number: int) -> Val:
            return self._integer(value, "i32", number)

        sign = b.binary("and", b.binary("lshr", bits, const(24)), const(0x80))
        magnitude = b.binary("and", bits, const(0x7FFFFFFF))
        # Normal numbers: round the bits, then move the exponent's bias.
        odd = b.binary("and", b.binary("lshr", magnitude, const(shift)), const(1))
        half = (
            magnitude
            if toward_zero
            else b.binary("add", b.binary("add", magnitude, odd), const((1 << (shift - 1)) - 1))
        )
        normal = b.binary("sub", b.binary("lshr", half, const(shift)), const((127 - bias) << mantissa))
        # Denormal numbers: adding a power of two lets the adder round to the smallest unit.
        unit = 2.0 ** (1 - bias - mantissa)
        scaled = b.binary("fmul", b.retype(magnitude, "f32"), b.constant("f32", 1.0 / unit, value.lanes))
        whole = b.intrinsic("trunc" if toward_zero else "roundeven", ("f32", value.lanes), (scaled,))
        small = b.compare("icmp ult", magnitude, const((127 + 1 - bias) << 23))
        clamped = b.select(small, whole, b.constant("f32", 0.0, value.lanes))
        denormal = b.cast("fptoui", clamped, "i32")
        result = b.select(small, denormal, normal)
        if element == "f8E4M3FN":
            overflow, beyond = 0x7E, 0x7F if not toward_zero else 0x7E
        else:
            overflow, beyond = 0x7B, 0x7C if not toward_zero else 0x7B
        result = b.select(b.compare("icmp ugt", result, const(overflow)), const(beyond), result)
        infinite = b.compare("icmp eq", magnitude, const(0x7F800000))
        result = b.select(infinite, const(0x7F if element == "f8E4M3FN" else 0x7C), result)
        nan = b.compare("icmp ugt", magnitude, const(0x7F800000))
        result = b.select(nan, const(0x7F), result)
        return b.retype(b.cast("trunc", b.binary("or", result, sign), "i8"), element)

    # -- integers and floats -----------------------------------------------------------------------------------------
    def from_integer(self, value: Val, element: str, signed: bool) -> Val:
        opcode = "sitofp" if signed else "uitofp"
        if element in ("f32", "f64"):
            return self.b.cast(opcode, value, element)
        return self.truncate(self.b.cast(opcode, value, "f32"), element)

    def to_integer(self, value: Val, element: str, signed: bool) -> Val:
        """Toward zero. Beyond 32 (64) bits the result saturates and NaN gives 0; narrower integers keep the low bits
        of that.
        """
        if is_float(value.element) and value.element not in ("f32", "f64"):
            value = self.extend(value, "f32")
        bits = BITS[element]
        if bits == 64:
            return self.b.retype(self._saturated(value, "i64", signed), element)
        through = "i32" if bits < 32 or signed else "i64"
        whole = self._saturated(value, through, True)
        return whole if through == element else self.b.cast("trunc", whole, element)

    def _saturated(self, value: Val, element: str, signed: bool) -> Val:
        """Written out for vectors, whose `fptosi.sat` LLVM takes apart into lanes."""
        b = self.b
        if not value.lanes:
            name = "fptosi.sat" if signed else "fptoui.sat"
            return b.intrinsic(name, (element, 0), (value,), overloads=((element, 0), (value.element, 0)))
        bits = BITS[element]
        highest = (1 << (bits - signed)) - 1
        least, most = value.bounds or (-math.inf, math.inf)
        whole = b.cast("fptosi" if signed else "fptoui", value, element)  # poison where out of range: not selected
        if most > highest:
            too_large = b.compare("fcmp oge", value, b.constant(value.element, float(highest + 1), value.lanes))
            whole = b.select(too_large, self._integer(value, element, highest), whole)
        zero = self._integer(value, element, 0)
        if not signed:
            return b.select(b.compare("fcmp ogt", value, b.constant(value.element, 0.0, value.lanes)), whole, zero)
        lowest = -(1 << (bits - 1))
        if least < lowest:
            too_low = b.compare("fcmp olt", value, b.constant(value.element, float(lowest), value.lanes))
            whole = b.select(too_low, self._integer(value, element, lowest), whole)
        return b.select(b.compare("fcmp uno", value, value), zero, whole)

    # -- by name -----------------------------------------------------------------------------------------------------
    def convert_float(self, value: Val, element: str, toward_zero: bool = False) -> Val:
        """Any float format to any other."""
        order = {"f8E4M3FN": 0, "f8E5M2": 0, "f16": 1, "bf16": 1, "f32": 2, "f64": 3}
        if value.element == element:
            return value
        if order[value.element] < order[element]:
            return self.extend(value, element)
        return self.truncate(value, element, toward_zero)

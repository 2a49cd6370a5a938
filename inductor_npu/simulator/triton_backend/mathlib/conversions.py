"""Conversions between formats, each with a single rounding and defined for every input.

`convert_to_T` rounds to nearest even, `convert_rtz_to_T` toward zero. Overflow to fp8 follows PyTorch's casts: e5m2
gives infinity, e4m3fn (which has none) its largest number. To integers: toward zero, saturating, NaN gives 0;
`convert_to_unsigned_iN` for unsigned ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from .builder import Builder, Value
from .library import define

FLOATS = ("f32", "f64", "f16", "bf16", "f8E4M3FN", "f8E5M2")


@dataclass(frozen=True)
class SmallFormat:
    """An 8-bit float: explicit mantissa bits, exponent bias, and the magnitude bits that overflow becomes."""

    element: str
    mantissa: int
    bias: int
    overflow: int
    largest: int  # magnitude bits of the largest finite number
    nan: int


E4M3FN = SmallFormat("f8E4M3FN", mantissa=3, bias=7, overflow=0x7E, largest=0x7E, nan=0x7F)
E5M2 = SmallFormat("f8E5M2", mantissa=2, bias=15, overflow=0x7C, largest=0x7B, nan=0x7F)


def _as(element: str, bits: Value) -> Value:
    """These bits, called a bf16 or fp8 value."""
    return bits.truncate({"bf16": "i16"}.get(element, "i8")).bitcast(element)


def _magnitude_toward_zero(b: Builder, x: Value, rounded: Value) -> Value:
    """The bits of `rounded` (x in a narrower format), one unit less where rounding went away from zero."""
    back = rounded.extend(x.element)
    away = b.abs(back) > b.abs(x)
    return rounded.bits() - away.zero_extend(rounded.bits().element)


def round_to_odd(b: Builder, x: Value) -> Value:
    """An f64 as f32, its last bit set where inexact: rounding this once more gives what a single rounding would."""
    rounded = x.truncate("f32")
    inexact = (rounded.extend("f64").compare("one", x)).zero_extend("i32")
    return (_magnitude_toward_zero(b, x, rounded) | inexact).bitcast("f32")


def truncate_to_f32(b: Builder, x: Value) -> Value:
    """An f64 as f32, toward zero."""
    return _magnitude_toward_zero(b, x, x.truncate("f32")).bitcast("f32")


@define("convert_to_f32", *FLOATS)
def to_f32(b: Builder, x: Value) -> Value:
    if x.element == "bf16":
        return (x.bitcast("i16").zero_extend("i32") << 16).bitcast("f32")
    if x.element == "f8E5M2":
        return (x.bitcast("i8").zero_extend("i16") << 8).bitcast("f16").extend("f32")
    if x.element == "f8E4M3FN":
        return _from_e4m3fn(x)
    if x.element == "f64":
        return x.truncate("f32")
    return x.extend("f32") if x.element == "f16" else x


def _from_e4m3fn(x: Value) -> Value:
    bits = x.bitcast("i8").zero_extend("i32")
    magnitude = bits & 0x7F
    value = (magnitude << 20).bitcast("f32") * 2.0**120  # moves the bias from 127 to 7; right for denormals too
    value = magnitude.equals(0x7F).select(float("nan"), value)
    return (value.bits() | ((bits & 0x80) << 24)).bitcast("f32")


@define("convert_to_f64", *FLOATS)
def to_f64(b: Builder, x: Value) -> Value:
    return x if x.element == "f64" else to_f32(b, x).extend("f64")


@define("convert_to_bf16", *FLOATS)
def to_bf16(b: Builder, x: Value) -> Value:
    if x.element == "bf16":
        return x
    x = round_to_odd(b, x) if x.element == "f64" else to_f32(b, x)
    bits = x.bits()
    rounded = (bits + ((bits.logical_shift(16) & 1) + 0x7FFF)).logical_shift(16)
    return _as("bf16", x.is_nan().select(bits.logical_shift(16) | 0x40, rounded))


@define("convert_to_f16", *FLOATS)
def to_f16(b: Builder, x: Value) -> Value:
    if x.element == "f16":
        return x
    return (round_to_odd(b, x) if x.element == "f64" else to_f32(b, x)).truncate("f16")


def _to_small(b: Builder, x: Value, fmt: SmallFormat, toward_zero: bool) -> Value:
    """An f32 in an 8-bit format."""
    sign = (x.bits().logical_shift(24)) & 0x80
    a = b.abs(x)
    bits = a.bits()
    dropped = 23 - fmt.mantissa
    rebiased = bits - ((127 - fmt.bias) << 23)
    smallest_normal = 2.0 ** (1 - fmt.bias)
    denormal_unit = 2.0 ** (1 - fmt.bias - fmt.mantissa)
    if toward_zero:
        normal = rebiased.logical_shift(dropped)
        denormal = b.to_int(a * (1 / denormal_unit), "i32")
        limit = a.equals(float("inf")).select(fmt.overflow, b.constant("i32", fmt.largest))
    else:
        half = (1 << (dropped - 1)) - 1
        normal = (rebiased + ((rebiased.logical_shift(dropped) & 1) + half)).logical_shift(dropped)
        shift = denormal_unit * 2.0**23  # adding it makes the unit in the last place the denormal unit
        denormal = (a + shift).bits() - b.constant("f32", shift).bits()
        limit = b.constant("i32", fmt.overflow)
    magnitude = (a < smallest_normal).select(denormal, (normal > limit).select(limit, normal))
    magnitude = x.is_nan().select(fmt.nan, magnitude)
    return _as(fmt.element, magnitude | sign)


@define("convert_to_f8E4M3FN", *FLOATS)
def to_e4m3fn(b: Builder, x: Value) -> Value:
    return _to_small(b, round_to_odd(b, x) if x.element == "f64" else to_f32(b, x), E4M3FN, toward_zero=False)


@define("convert_to_f8E5M2", *FLOATS)
def to_e5m2(b: Builder, x: Value) -> Value:
    return _to_small(b, round_to_odd(b, x) if x.element == "f64" else to_f32(b, x), E5M2, toward_zero=False)


def _f32_toward_zero(b: Builder, x: Value) -> Value:
    return truncate_to_f32(b, x) if x.element == "f64" else to_f32(b, x)


@define("convert_rtz_to_f32", *FLOATS)
def to_f32_rtz(b: Builder, x: Value) -> Value:
    return _f32_toward_zero(b, x)


@define("convert_rtz_to_bf16", *FLOATS)
def to_bf16_rtz(b: Builder, x: Value) -> Value:
    x = _f32_toward_zero(b, x)
    high = x.bits().logical_shift(16)
    return _as("bf16", x.is_nan().select(high | 0x40, high))


@define("convert_rtz_to_f16", *FLOATS)
def to_f16_rtz(b: Builder, x: Value) -> Value:
    x = _f32_toward_zero(b, x)
    return _magnitude_toward_zero(b, x, x.truncate("f16")).bitcast("f16")


@define("convert_rtz_to_f8E4M3FN", *FLOATS)
def to_e4m3fn_rtz(b: Builder, x: Value) -> Value:
    return _to_small(b, _f32_toward_zero(b, x), E4M3FN, toward_zero=True)


@define("convert_rtz_to_f8E5M2", *FLOATS)
def to_e5m2_rtz(b: Builder, x: Value) -> Value:
    return _to_small(b, _f32_toward_zero(b, x), E5M2, toward_zero=True)


def _define_to_integers() -> None:
    for bits in (8, 16, 32, 64):
        for signed, prefix in ((True, "convert_to_"), (False, "convert_to_unsigned_")):

            def body(b: Builder, x: Value, element: str = f"i{bits}", signed: bool = signed) -> Value:
                return b.to_int(x if x.element == "f64" else to_f32(b, x), element, signed)

            define(f"{prefix}i{bits}", *FLOATS)(body)


_define_to_integers()

"""The two binary formats for which functions are written, and the operations on their bits."""

from __future__ import annotations

from dataclasses import dataclass

from .builder import Builder, Value


@dataclass(frozen=True)
class Format:
    """An IEEE binary format: `element` and the integer of its width, explicit mantissa bits, exponent bias."""

    element: str
    integer: str
    mantissa: int
    bias: int

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def round_shift(self) -> float:
        """Adding it rounds a float of moderate size to an integer that appears in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def round_shift_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))

    @property
    def sqrt_half_bits(self) -> int:
        return {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}[self.element]

    @property
    def sign_bit(self) -> int:
        return 1 << (32 if self.element == "f32" else 64) - 1


F32 = Format("f32", "i32", 23, 127)
F64 = Format("f64", "i64", 52, 1023)
FORMATS = {"f32": F32, "f64": F64}
INF = float("inf")
NAN = float("nan")


def power_of_two(builder: Builder, exponent: Value, fmt: Format) -> Value:
    """2**exponent for an integer exponent of the format's normal numbers."""
    return ((exponent + fmt.bias) << fmt.mantissa).bitcast(fmt.element)


def scale(builder: Builder, x: Value, exponent: Value, fmt: Format) -> Value:
    """x * 2**exponent in two steps, so that results round once into the denormals and overflow to infinity."""
    half = exponent >> 1
    return x * power_of_two(builder, half, fmt) * power_of_two(builder, exponent - half, fmt)


def round_to_integer(builder: Builder, x: Value, factor: float, fmt: Format) -> tuple[Value, Value]:
    """x * factor rounded to nearest, as a float and as an integer; defined (but meaningless) for NaN."""
    shifted = builder.fma(x, factor, fmt.round_shift)
    integer = shifted.bits() - fmt.round_shift_bits
    return shifted - fmt.round_shift, integer


def clamp(x: Value, low: float, high: float) -> Value:
    """x inside [low, high]; NaN stays."""
    x = (x > high).select(high, x)
    return (x < low).select(low, x)


def split_exponent(builder: Builder, x: Value, fmt: Format) -> tuple[Value, Value]:
    """m in [sqrt(1/2), sqrt(2)) and the integer e with x == m * 2**e, for positive finite x, denormal or not."""
    tiny = x < fmt.smallest_normal
    bits = tiny.select(x * 2.0**fmt.mantissa, x).bits()
    exponent = (bits - fmt.sqrt_half_bits) >> fmt.mantissa
    fraction = (bits - (exponent << fmt.mantissa)).bitcast(fmt.element)
    return fraction, exponent - tiny.select(builder.constant(fmt.integer, fmt.mantissa), 0)

"""sin, cos, tan, sinpi and cospi for f32 and f64.

Arguments are reduced by multiples of pi/2 in three fused steps while that is exact enough. Larger ones take a rare
path: for f32 a multiplication by the needed window of the bits of 2/pi (M. Payne and R. Hanek, 1983), for f64 the C
library.
"""

from __future__ import annotations

import math
from itertools import pairwise

from . import coefficients as c
from .builder import Builder, Value
from .formats import F32, F64, FORMATS, NAN, round_to_integer
from .library import define

# pi/2 as a sum of three numbers of the format.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
LARGE = {"f32": 1.0e5, "f64": 1.0e6}
# 32 zero bits, then the first 224 bits of 2/pi.
TWO_OVER_PI_WORDS = (0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)


def _polynomials(b: Builder, r: Value) -> tuple[Value, Value]:
    """sin(r) and cos(r) for |r| <= pi/4."""
    sin_coefficients, cos_coefficients = (c.SIN_F32, c.COS_F32) if r.element == "f32" else (c.SIN_F64, c.COS_F64)
    z = r * r
    sine = b.fma(r * z, b.polynomial_parallel(z, sin_coefficients), r)
    cosine_tail = z * z * b.polynomial_parallel(z, cos_coefficients)
    half = z * 0.5
    one_less = 1.0 - half
    lost = (1.0 - one_less) - half  # what the subtraction rounded away
    return sine, one_less + (cosine_tail + lost)


def _reduce(b: Builder, x: Value) -> tuple[Value, Value]:
    """r in about [-pi/4, pi/4] and the integer n with x == n pi/2 + r; only the low two bits of n are meant."""
    fmt = FORMATS[x.element]
    n, integer = round_to_integer(b, x, 2 / math.pi, fmt)
    first, second, third = HALF_PI[fmt.element]
    r = b.fma(n, -third, b.fma(n, -second, b.fma(n, -first, x)))
    if fmt is not F32:
        return r, integer

    def slow() -> tuple[Value, Value]:
        r_wide, n = _reduce_large_f32(b, x)
        return r_wide.truncate("f32"), n

    r, integer = b.where_any(b.abs(x).compare("uge", LARGE["f32"]), (r, integer), slow)
    return r, integer


def _reduce_f32_to_f64(b: Builder, x: Value) -> tuple[Value, Value]:
    """As `_reduce`, for an f32, but r in f64."""
    wide = x.extend("f64")
    n, integer = round_to_integer(b, wide, 2 / math.pi, F64)
    r = b.fma(n, -HALF_PI["f64"][1], b.fma(n, -HALF_PI["f64"][0], wide))
    is_large = b.abs(x).compare("uge", LARGE["f32"])
    r, integer = b.where_any(is_large, (r, integer.truncate("i32")), lambda: _reduce_large_f32(b, x))
    return r, integer


def _reduce_large_f32(b: Builder, x: Value) -> tuple[Value, Value]:
    """r, in f64, and n for a large f32."""
    bits = x.bits()
    exponent = (bits.logical_shift(23) & 0xFF) - 150  # |x| == mantissa * 2**exponent
    mantissa = ((bits & 0x7FFFFF) | 0x800000).zero_extend("i64")
    # Bits of weight 4 and more quadrants drop out; `position` is the first that stays, counted from the table's start.
    position = exponent + 30
    word, shift = position.logical_shift(5), position & 31

    def word_at(offset: int) -> Value:
        chosen = b.constant("i32", TWO_OVER_PI_WORDS[offset])
        for start in range(1, 5):
            index = start + offset
            bits_there = TWO_OVER_PI_WORDS[index] if index < len(TWO_OVER_PI_WORDS) else 0
            chosen = word.equals(start).select(bits_there, chosen)
        return chosen

    words = [word_at(offset) for offset in range(4)]
    window = [b.intrinsic("fshl", "i32", *pair, shift).zero_extend("i64") for pair in pairwise(words)]
    product = ((mantissa * window[0]) << 32) + mantissa * window[1] + (mantissa * window[2]).logical_shift(32)
    quadrant = (product + (1 << 61)) >> 62
    fraction = product - (quadrant << 62)
    r = fraction.signed_to_float("f64") * (math.pi / 2 * 2.0**-62)
    negative = bits < 0
    integer = quadrant.truncate("i32")
    r = b.abs(x).compare("ult", math.inf).select(r, NAN)
    r = x.is_nan().select(NAN, r)
    return negative.select(-r, r), negative.select(-integer, integer)


def _choose(b: Builder, r: Value, quadrant: Value) -> Value:
    """sin(r + quadrant pi/2)"""
    fmt = FORMATS[r.element]
    sine, cosine = _polynomials(b, r)
    result = (quadrant & 1).equals(0).select(sine, cosine)
    sign = (quadrant & 2) << (fmt.mantissa + (7 if fmt is F32 else 10))
    return (result.bits() ^ sign).bitcast(fmt.element)


def _large_f64(b: Builder, name: str, x: Value, result: Value) -> Value:
    """f64 arguments too large for `_reduce` go to the C library."""
    if x.element == "f32":
        return result
    is_large = b.abs(x).compare("uge", LARGE["f64"])
    return b.where_any(is_large, (result,), lambda: (b.per_lane(name, "f64", x),))[0]


@define("sin", "f32", "f64")
def sin(b: Builder, x: Value) -> Value:
    r, quadrant = _reduce(b, x)
    result = _large_f64(b, "sin", x, _choose(b, r, quadrant))
    return x.equals(0.0).select(x, result)  # keeps -0


@define("cos", "f32", "f64")
def cos(b: Builder, x: Value) -> Value:
    r, quadrant = _reduce(b, x)
    return _large_f64(b, "cos", x, _choose(b, r, quadrant + 1))


@define("tan", "f32", "f64")
def tan(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("tan", "f64", x)
    r, quadrant = _reduce_f32_to_f64(b, x)
    z = r * r
    sine = b.fma(r * z, b.polynomial_parallel(z, c.SIN_F32), r)
    cosine = b.fma(z * z, b.polynomial_parallel(z, c.COS_F32), b.fma(z, -0.5, 1.0))
    even = (quadrant & 1).equals(0)
    result = (even.select(sine, -cosine) / even.select(cosine, sine)).truncate("f32")
    return x.equals(0.0).select(x, result)


def _reduce_pi(b: Builder, x: Value) -> tuple[Value, Value]:
    """r and n with x pi == n pi/2 + r, exactly reduced."""
    fmt = FORMATS[x.element]
    # Multiples of 2 drop out first: beyond 2**mantissa every x is an even integer.
    x = x - b.trunc(x * 0.5) * 2.0
    n, integer = round_to_integer(b, x, 2.0, fmt)
    t = b.fma(n, -0.5, x)
    pi_low = {"f32": -8.742277657347586e-08, "f64": 1.2246467991473532e-16}[fmt.element]
    return b.fma(t, math.pi, t * pi_low), integer


@define("sinpi", "f32", "f64")
def sinpi(b: Builder, x: Value) -> Value:
    r, quadrant = _reduce_pi(b, x)
    is_integer = b.trunc(x).equals(x) & b.abs(x).differs(math.inf)
    return is_integer.select(b.copysign(0.0, x), _choose(b, r, quadrant))


@define("cospi", "f32", "f64")
def cospi(b: Builder, x: Value) -> Value:
    r, quadrant = _reduce_pi(b, x)
    return _choose(b, r, quadrant + 1) + 0.0

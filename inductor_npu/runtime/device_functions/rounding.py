"""Rounding, signs and remainders of fp32 numbers. Signs are taken from the bits, so that -0.0 keeps its own."""

from __future__ import annotations

import triton
import triton.language as tl

_SIGN = tl.constexpr(-(2**31))
_TO_WHOLE = tl.constexpr(2.0**23)  # from here on every fp32 is a whole number


@triton.jit
def with_sign_of(magnitude: tl.tensor, x: tl.tensor) -> tl.tensor:
    """`magnitude`, whose sign bit is clear, with the sign bit of `x`. fp32."""
    sign = x.to(tl.int32, bitcast=True) & _SIGN
    return (magnitude.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def copy_sign(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The magnitude of `x` with the sign of `y`. fp32."""
    return with_sign_of(tl.abs(x), y)


@triton.jit
def truncate(x: tl.tensor) -> tl.tensor:
    """`x` rounded towards zero. fp32."""
    return with_sign_of(tl.floor(tl.abs(x)), x)


@triton.jit
def round_to_even(x: tl.tensor) -> tl.tensor:
    """`x` rounded to the nearest whole number, halves to the even one. fp32.

    The addition of 2^23 rounds: numbers between 2^23 and 2^24 have no bits behind the point.
    """
    magnitude = tl.abs(x)
    rounded = (magnitude + _TO_WHOLE) - _TO_WHOLE
    return with_sign_of(tl.where(magnitude < _TO_WHOLE, rounded, magnitude), x)


_BITS_A_ROUND = tl.constexpr(21)
_BITS = tl.constexpr(253)  # by which exponents of normal numbers differ at most
_UPPER_HALF = tl.constexpr(-(2**12))  # the sign, the exponent and the upper 12 of 24 bits of an fp32
_NEAREST = tl.constexpr(1.5 * 2.0**23)  # adding it rounds to a whole number
_NEAREST_2048 = tl.constexpr(1.5 * 2.0**34)  # to a multiple of 2^11


@triton.jit
def fmod(x: tl.tensor, y: tl.tensor, bits: tl.constexpr = _BITS) -> tl.tensor:
    """What is left of `x` after whole multiples of `y`, with the sign of `x`. fp32, exact; NaN for subnormal `y`.

    `bits` is how many the quotient can have before the point.

    `x - trunc(x / y) * y` loses everything once the quotient has more than 24 bits. Here the quotient is taken 21
    bits at a time, and each product is split into four that need no rounding.
    """
    rest, divisor = tl.broadcast(tl.abs(x), tl.abs(y))
    divisor_bits = divisor.to(tl.int32, bitcast=True)
    exponent = divisor_bits >> 23
    for _ in tl.static_range(bits // _BITS_A_ROUND + 1):  # a loop would keep every intermediate tile
        shift = tl.maximum((rest.to(tl.int32, bitcast=True) >> 23) - exponent - _BITS_A_ROUND, 0)
        scaled = divisor_bits + (shift << 23)
        multiple = scaled.to(tl.float32, bitcast=True)
        upper = (scaled & _UPPER_HALF).to(tl.float32, bitcast=True)
        lower = multiple - upper
        quotient = (rest / multiple + _NEAREST) - _NEAREST
        many = (quotient + _NEAREST_2048) - _NEAREST_2048
        few = quotient - many
        rest = rest - many * upper
        rest = rest - many * lower
        rest = rest - few * upper
        rest = rest - few * lower
        rest = tl.where(rest < 0.0, rest + multiple, rest)
    rest = tl.where(divisor == float("inf"), tl.abs(x), rest)
    return with_sign_of(tl.where(exponent == 0, float("nan"), rest), x)


@triton.jit
def remainder(x: tl.tensor, y: tl.tensor, bits: tl.constexpr = _BITS) -> tl.tensor:
    """What is left of `x` after whole multiples of `y`, with the sign of `y`, as in Python. fp32."""
    rest = fmod(x, y, bits)
    return tl.where((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), rest + y, rest)

"""The logarithm of an fp32 number with more digits than one fp32 has, and its building blocks: numbers split in two."""

from __future__ import annotations

import triton
import triton.language as tl

_SPLIT = tl.constexpr(-(2**12))  # the sign, the exponent and the upper 12 of 24 bits of an fp32
_SMALLEST = tl.constexpr(1.1754943508222875e-38)
_ROOT_HALF = tl.constexpr(0x3F3504F3)  # bits of sqrt(1/2)
_LN_2_HIGH = tl.constexpr(0.693359375)  # 10 bits: exact times an exponent
_LN_2_LOW = tl.constexpr(-2.12194440054690583e-4)
# Two fp32 whose logarithms are multiples of 2^-17, to 1e-11.
_BELOW = tl.constexpr(0.7977380156517029)
_LOG_BELOW = tl.constexpr(-0.22597503662109375)
_ABOVE = tl.constexpr(1.2672181129455566)
_LOG_ABOVE = tl.constexpr(0.23682403564453125)


@triton.jit
def upper_half(x: tl.tensor) -> tl.tensor:
    """`x` without its lower 12 bits: a product of two such numbers is exact. fp32."""
    return (x.to(tl.int32, bitcast=True) & _SPLIT).to(tl.float32, bitcast=True)


@triton.jit
def without_last_bit(x: tl.tensor) -> tl.tensor:
    """`x` with a last bit of 0. fp32.

    A product stays rounded as it is here, whether or not the compiler fuses products and sums.
    """
    return (x.to(tl.int32, bitcast=True) & -2).to(tl.float32, bitcast=True)


@triton.jit
def log_in_two(x: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """log(x) of a positive number as a sum of two, the first with 12 bits at most, good to some 2^-33 of itself.

    x = 2^e m with m between sqrt(1/2) and sqrt(2), c the nearest of 0.798, 1 and 1.267, s = (m - c) / (m + c):
    log(x) = e log(2) + log(c) + 2 s + 2/3 s^3 + ... The quotient is taken in two parts; what follows it is small.
    """
    subnormal = x < _SMALLEST
    bits = tl.where(subnormal, x * 16777216.0, x).to(tl.int32, bitcast=True) - _ROOT_HALF
    exponent = (bits >> 23).to(tl.float32)
    mantissa = ((bits & 0x7FFFFF) + _ROOT_HALF).to(tl.float32, bitcast=True)
    exponent = tl.where(subnormal, exponent - 24.0, exponent)
    below = mantissa < 0.8909
    above = mantissa > 1.1225
    center = tl.where(below, _BELOW, tl.where(above, _ABOVE, 1.0))
    whole = exponent * _LN_2_HIGH + tl.where(below, _LOG_BELOW, tl.where(above, _LOG_ABOVE, 0.0))  # exact

    difference = mantissa - center
    total = mantissa + center
    lost = mantissa - (total - center)
    inverse = 1.0 / total
    upper = upper_half(difference * inverse)
    total_upper = upper_half(total)
    # What a product with the upper 12 bits leaves, without a rounding.
    left = ((difference - upper * total_upper) - upper * (total - total_upper)) - upper * lost
    lower = left * inverse
    s = upper + lower
    square = s * s
    rest = square * 0.286938787 + 0.399998307
    rest = rest * square + 0.666666687
    rest = rest * square * s

    twice = upper + upper
    sum_of_large = whole + twice
    lost = twice - (sum_of_large - whole)
    low = lost + ((lower + lower) + (rest + exponent * _LN_2_LOW))
    high = upper_half(sum_of_large + low)
    return high, (sum_of_large - high) + low

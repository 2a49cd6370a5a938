"""int64 arithmetic without 64-bit instructions, of which the chip's vector unit has few.

It has `&`, `|`, `^`, and conversions from and to int32 and fp32. So masks split a number into three limbs of 24, 24
and 16 bits, each exact in fp32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .division import floor_remainder, small_remainder
from .integers import upper_product

_LOW = tl.constexpr(2**24 - 1)
_MIDDLE = tl.constexpr((2**24 - 1) << 24)
_HIGH = tl.constexpr(-(2**48))
_UP_24 = tl.constexpr(2.0**24)
_UP_48 = tl.constexpr(2.0**48)


@triton.jit
def _limb(x: tl.tensor, mask: tl.constexpr) -> tl.tensor:
    """The bits of `x` that `mask` chooses, as a number in fp32: exact for the masks above."""
    return (x.to(tl.int64) & mask).to(tl.float32)


@triton.jit
def _joined(low: tl.tensor, middle: tl.tensor, high: tl.tensor) -> tl.tensor:
    """The int64 of the limbs `low` (any int32), `middle` and `high` (from -2^25 to 2^25), with their carries."""
    middle += low >> 24
    high += middle >> 24
    high = (high << 16) >> 16  # a sum wraps at 64 bits
    upper = (high.to(tl.float32) * _UP_48).to(tl.int64)
    centre = ((middle & _LOW).to(tl.float32) * _UP_24).to(tl.int64)
    return upper | centre | (low & _LOW).to(tl.int64)


@triton.jit
def _limbs(x: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The limbs of `x` as int32, each counted in its own unit: low, middle, high. The highest has the sign."""
    low = _limb(x, _LOW).to(tl.int32)
    middle = (_limb(x, _MIDDLE) * (1.0 / _UP_24)).to(tl.int32)
    high = (_limb(x, _HIGH) * (1.0 / _UP_48)).to(tl.int32)
    return low, middle, high


@triton.jit
def add_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x + y` of integers, as int64 that wraps."""
    x_low, x_middle, x_high = _limbs(x)
    y_low, y_middle, y_high = _limbs(y)
    return _joined(x_low + y_low, x_middle + y_middle, x_high + y_high)


@triton.jit
def subtract_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x - y` of integers, as int64 that wraps."""
    x_low, x_middle, x_high = _limbs(x)
    y_low, y_middle, y_high = _limbs(y)
    return _joined(x_low - y_low, x_middle - y_middle, x_high - y_high)


@triton.jit
def _halves(x: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The lower and the upper 32 bits of `x`, as int32."""
    low, middle, high = _limbs(x)
    return low | (middle << 24), (middle >> 8) | (high << 16)


@triton.jit
def multiply_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x * y` of integers, as int64 that wraps."""
    x_lower, x_upper = _halves(x)
    y_lower, y_upper = _halves(y)
    lower = x_lower * y_lower
    upper = upper_product(x_lower, y_lower) + x_lower * y_upper + x_upper * y_lower
    return _joined(lower & _LOW, ((lower >> 24) & 0xFF) | ((upper & 0xFFFF) << 8), upper >> 16)


@triton.jit
def where_int64(condition: tl.tensor, x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x` where `condition` holds, else `y`, as int64: a selection by bits."""
    chosen = (condition.to(tl.int32) * -1).to(tl.int64)
    other = y.to(tl.int64)
    return other ^ ((x.to(tl.int64) ^ other) & chosen)


@triton.jit
def gather_int64(x: tl.tensor, place: tl.tensor) -> tl.tensor:
    """`x[place]` of int64 with one axis."""
    low = tl.gather(_limb(x, _LOW), place, 0).to(tl.int64)
    middle = tl.gather(_limb(x, _MIDDLE), place, 0).to(tl.int64)
    return tl.gather(_limb(x, _HIGH), place, 0).to(tl.int64) | middle | low


@triton.jit
def equal_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Whether two integers are equal: a number that is not 0 is not 0 in fp32 either."""
    return (x.to(tl.int64) ^ y.to(tl.int64)).to(tl.float32) == 0.0


@triton.jit
def unequal_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Whether two integers differ."""
    return (x.to(tl.int64) ^ y.to(tl.int64)).to(tl.float32) != 0.0


@triton.jit
def _sign_of_difference(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """A number in fp32 with the sign of `x - y`, which need not fit 64 bits.

    The differences of the limbs are added with weights that let each outweigh all below it, whatever is rounded.
    """
    low = _limb(x, _LOW) - _limb(y, _LOW)
    middle = _limb(x, _MIDDLE) - _limb(y, _MIDDLE)
    high = _limb(x, _HIGH) - _limb(y, _HIGH)
    return high * 4.0 + (middle * 2.0 + low)


@triton.jit
def less_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Whether `x < y`."""
    return _sign_of_difference(x, y) < 0.0


@triton.jit
def at_most_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Whether `x <= y`."""
    return _sign_of_difference(x, y) <= 0.0


@triton.jit
def floor_divide_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x / y` rounded down; 0 where `y` is 0. Element by element on the chip."""
    x = x.to(tl.int64)
    y = y.to(tl.int64)
    zero = tl.full([], 0, tl.int64)
    is_zero = equal_int64(y, zero)
    divisor = where_int64(is_zero, zero + 1, y)
    quotient = x // divisor
    rest = x - quotient * divisor
    over = unequal_int64(rest, zero) & less_int64(rest ^ divisor, zero)
    return where_int64(is_zero, zero, quotient - over.to(tl.int64))


_DIGIT = tl.constexpr(2**12)
_LEAST = tl.constexpr(2**63)


@triton.jit
def _next_remainder(rest: tl.tensor, digit: tl.tensor, divisor: tl.constexpr) -> tl.tensor:
    """What is left of a number once the next digit is written behind those that left `rest`: 12 bits behind 19 fit
    int32, and behind 10 a product in fp32 divides them exactly.
    """
    number = rest * _DIGIT + digit
    if divisor < 2**10:
        result = small_remainder(number, divisor)
    else:
        result = floor_remainder(number, tl.full([], divisor, tl.int32))
    return result


@triton.jit
def remainder_int64(x: tl.tensor, divisor: tl.constexpr) -> tl.tensor:
    """`x - floor(x / divisor) * divisor` as int32, for a divisor from 1 to 2^19 - 1: digit by digit."""
    low, middle, high = _limbs(x)
    upper = high + 2**15  # of x + 2^63, which is not negative
    rest = _next_remainder(upper >> 12, upper & (_DIGIT - 1), divisor)
    rest = _next_remainder(rest, middle >> 12, divisor)
    rest = _next_remainder(rest, middle & (_DIGIT - 1), divisor)
    rest = _next_remainder(rest, low >> 12, divisor)
    rest = _next_remainder(rest, low & (_DIGIT - 1), divisor)
    less: tl.constexpr = _LEAST % divisor
    rest -= less
    return rest + ((rest >> 31) & divisor)


@triton.jit
def truncating_remainder_int64(x: tl.tensor, divisor: tl.constexpr) -> tl.tensor:
    """What is left of `x` after whole multiples of `divisor`, with the sign of `x`; as `remainder_int64`."""
    rest = remainder_int64(x, divisor)
    sign = (_limb(x, _HIGH) * (1.0 / _UP_48)).to(tl.int32) >> 31
    return rest - (sign & (-rest >> 31) & divisor)

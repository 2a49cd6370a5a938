"""The parts of fp32 numbers: mantissa, exponent, the next number."""

from __future__ import annotations

import triton
import triton.language as tl

_SIGN = tl.constexpr(-(2**31))
_SMALLEST = tl.constexpr(1.1754943508222875e-38)
_TO_NORMAL = tl.constexpr(2.0**24)


@triton.jit
def _is_plain(x: tl.tensor) -> tl.tensor:
    """Whether `x` is neither zero, nor infinite, nor NaN."""
    magnitude = tl.abs(x)
    return (magnitude > 0.0) & (magnitude < float("inf"))


@triton.jit
def frexp_mantissa(x: tl.tensor) -> tl.tensor:
    """`x / 2^e` with a magnitude from 1/2 to below 1; `x` itself if it is zero, infinite or NaN."""
    normal = tl.where(tl.abs(x) < _SMALLEST, x * _TO_NORMAL, x)
    bits = (normal.to(tl.int32, bitcast=True) & -0x7F800001) | 0x3F000000
    return tl.where(_is_plain(x), bits.to(tl.float32, bitcast=True), x)


@triton.jit
def frexp_exponent(x: tl.tensor) -> tl.tensor:
    """The e of `frexp_mantissa`, as int32; 0 for zero, infinity and NaN."""
    subnormal = tl.abs(x) < _SMALLEST
    normal = tl.where(subnormal, x * _TO_NORMAL, x)
    exponent = (normal.to(tl.int32, bitcast=True) >> 23) & 0xFF
    return tl.where(_is_plain(x), exponent - tl.where(subnormal, 150, 126), 0)


@triton.jit
def _power_of_two(exponent: tl.tensor) -> tl.tensor:
    """2^exponent, from -126 to 127."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def ldexp(x: tl.tensor, exponent: tl.tensor) -> tl.tensor:
    """`x * 2^exponent`, in three steps, since a single power may overflow where the result does not."""
    left = tl.minimum(tl.maximum(exponent, -300), 300)
    first = tl.minimum(tl.maximum(left, -126), 127)
    second = tl.minimum(tl.maximum(left - first, -126), 127)
    third = left - first - second
    # The largest step last: only there can a result become subnormal, and be rounded.
    return x * _power_of_two(third) * _power_of_two(second) * _power_of_two(first)


@triton.jit
def nextafter(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The number next to `x` in the direction of `y`."""
    bits = x.to(tl.int32, bitcast=True)
    away = tl.where((y > x) == (x > 0.0), 1, -1)
    smallest = (y.to(tl.int32, bitcast=True) & _SIGN) | 1
    moved = tl.where(x == 0.0, smallest, bits + away).to(tl.float32, bitcast=True)
    moved = tl.where(x == y, y, moved)
    return tl.where((x != x) | (y != y), float("nan"), moved)

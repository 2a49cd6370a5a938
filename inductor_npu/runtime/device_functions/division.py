"""Division of int32 numbers.

Ascend divides int32 tiles in fp32, which is exact below 2^24 only, and has no remainder. Here the fp32 quotient is a
first estimate. Its remainder is computed exactly, in integers that wrap, and divided once more.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _floor(x: tl.tensor, y: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Quotient rounded down and remainder (of the sign of `y`) of int32 numbers, `y` not 0.

    Three roundings put the first guess off by at most 1 + 384 for quotients up to 2^31, so that the rest is at most
    384 + abs(y). The second guess is then off by at most one, to either side.
    """
    divisor = y.to(tl.float32)
    quotient = (x.to(tl.float32) / divisor).to(tl.int32)
    rest = x - quotient * y
    more = tl.floor(rest.to(tl.float32) / divisor).to(tl.int32)
    quotient += more
    rest -= more * y
    # -1 where the rest has not the sign of the divisor: once too often.
    over = tl.where(rest == 0, 0, (rest ^ y) >> 31)
    quotient += over
    rest -= over * y
    # -1 where it holds the divisor once more.
    left = rest - y
    under = tl.where(left == 0, -1, ~((left ^ y) >> 31))
    return quotient - under, rest + under * y


@triton.jit
def floor_divide(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x / y` rounded down; 0 where `y` is 0. int32."""
    quotient, _ = _floor(x, tl.where(y == 0, 1, y))
    return tl.where(y == 0, 0, quotient)


@triton.jit
def floor_remainder(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x - floor(x / y) * y`, with the sign of `y`. int32, `y` not 0."""
    _, rest = _floor(x, y)
    return rest


@triton.jit
def truncating_divide(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x / y` rounded towards zero; 0 where `y` is 0. int32."""
    quotient, rest = _floor(x, y)
    return tl.where(y == 0, 0, tl.where((rest != 0) & ((x ^ y) < 0), quotient + 1, quotient))


@triton.jit
def truncating_remainder(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """What is left of `x` after whole multiples of `y`, with the sign of `x`. int32, `y` not 0."""
    _, rest = _floor(x, y)
    return tl.where((rest != 0) & ((x ^ y) < 0), rest - y, rest)


@triton.jit
def small_quotient(x: tl.tensor, divisor: tl.constexpr) -> tl.tensor:
    """`x // divisor` of int32 from 0 to 2^22: half a step away from a whole number, rounding cannot reach it."""
    return ((x.to(tl.float32) + 0.5) * (1.0 / divisor)).to(tl.int32)


@triton.jit
def small_remainder(x: tl.tensor, divisor: tl.constexpr) -> tl.tensor:
    """`x % divisor` of int32 from 0 to 2^22."""
    return x - small_quotient(x, divisor) * divisor

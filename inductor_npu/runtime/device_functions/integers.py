"""Shifts by tiles, powers and the upper half of products of int32, none of which the chip's vector unit has."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def shift_left(x: tl.tensor, amount: tl.tensor) -> tl.tensor:
    """`x << amount`, 0 where the amount is negative or 32 and more. int32.

    The vector unit shifts all elements of a tile alike: bit by bit of the amount.
    """
    for bit in tl.static_range(5):
        x = tl.where((amount & (1 << bit)) == 0, x, x << (1 << bit))
    return tl.where((amount & -32) == 0, x, 0)


@triton.jit
def shift_right(x: tl.tensor, amount: tl.tensor) -> tl.tensor:
    """`x >> amount` with copies of the sign, all of them where the amount is negative or 32 and more. int32."""
    amount = tl.where((amount & -32) == 0, amount, 31)
    for bit in tl.static_range(5):
        x = tl.where((amount & (1 << bit)) == 0, x, x >> (1 << bit))
    return x


@triton.jit
def power_of_integer(base: tl.tensor, exponent: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """`base ** exponent` that wraps, for exponents from 0 to 2^bits - 1. Integers."""
    result = base * 0 + exponent.to(base.dtype) * 0 + 1
    for bit in tl.static_range(bits):
        factor = tl.where((exponent & (1 << bit)) == 0, 1, base)
        result = result * factor.to(base.dtype)
        base = base * base
    return result


_HALF = tl.constexpr(0xFFFF)


@triton.jit
def upper_product(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The upper 32 bits of the product of `x` and `y`, both unsigned, as int32. `x` may be a constant.

    Made of products of 16 bits: each fits 32, and so do their sums in this order.
    """
    x_low = x & _HALF
    x_high = (x >> 16) & _HALF
    y_low = y & _HALF
    y_high = (y >> 16) & _HALF
    first = x_high * y_low + (((x_low * y_low) >> 16) & _HALF)
    second = x_low * y_high + (first & _HALF)
    return x_high * y_high + ((first >> 16) & _HALF) + ((second >> 16) & _HALF)


@triton.jit
def to_byte(x: tl.tensor, dtype: tl.constexpr) -> tl.tensor:
    """`x` as int8 or uint8, by way of int32. Ascend's compiler turns the tile for that, with room for 32 rows of 13
    times their length: rows of 32 are all it needs.
    """
    if len(x.shape) > 1 and x.shape[-1] > 32:
        rows = tl.reshape(x, [x.numel // 32, 32])
        result = tl.reshape(rows.to(tl.int32).to(dtype), x.shape)
    else:
        result = x.to(tl.int32).to(dtype)
    return result

"""Sums of integers along a dimension of a tile.

Ascend's compiler adds integers one by one: int64 everywhere, int32 in the last 32 bytes of each row. So each integer is
split into limbs with so few bits that their sums are exact in fp32; the sums are recombined afterwards.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .int64 import _joined


@triton.jit
def limb(x: tl.tensor, first: tl.constexpr, width: tl.constexpr, is_last: tl.constexpr) -> tl.tensor:
    """The `width` bits of an int32 or int64 from bit `first` on, as a number in fp32; the last limb has the sign and
    all bits that are left. Exact if that is no more than 24 bits.
    """
    if x.dtype == tl.int64:
        unit: tl.constexpr = 1.0 / (1 << first)
        mask: tl.constexpr = -(1 << first) if is_last else ((1 << width) - 1) << first
        part = (x & mask).to(tl.float32) * unit
    elif is_last:
        part = (x >> first).to(tl.float32)
    else:
        part = ((x >> first) & ((1 << width) - 1)).to(tl.float32)
    return part


@triton.jit
def _placed(
    low: tl.tensor, middle: tl.tensor, high: tl.tensor, number: tl.tensor, shift: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """`number << shift` added to a sum of three limbs of 24, 24 and 16 bits, carries left where they are."""
    limb = number.to(tl.int32)
    if shift < 24:
        low += (limb & ((1 << (24 - shift)) - 1)) << shift
        middle += limb >> (24 - shift)
    elif shift < 48:
        middle += (limb & ((1 << (48 - shift)) - 1)) << (shift - 24)
        high += limb >> (48 - shift)
    else:
        high += limb << (shift - 48)
    return low, middle, high


@triton.jit
def int64_of_limbs(
    width: tl.constexpr,
    count: tl.constexpr,
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    d: tl.tensor,
    e: tl.tensor,
    f: tl.tensor,
    g: tl.tensor,
    h: tl.tensor,
) -> tl.tensor:
    """The int64, which wraps, of the first `count` of these whole numbers in fp32, each of which counts 2**width times
    the one before it.
    """
    nothing = a.to(tl.int32) * 0
    low, middle, high = _placed(nothing, nothing, nothing, a, 0)
    if count > 1:
        low, middle, high = _placed(low, middle, high, b, width)
    if count > 2:
        low, middle, high = _placed(low, middle, high, c, 2 * width)
    if count > 3:
        low, middle, high = _placed(low, middle, high, d, 3 * width)
    if count > 4:
        low, middle, high = _placed(low, middle, high, e, 4 * width)
    if count > 5:
        low, middle, high = _placed(low, middle, high, f, 5 * width)
    if count > 6:
        low, middle, high = _placed(low, middle, high, g, 6 * width)
    if count > 7:
        low, middle, high = _placed(low, middle, high, h, 7 * width)
    return _joined(low, middle, high)

"""On-chip gathers from a tile, for generated kernels to call.

The chip's gather supports floating-point types and int8, and so does Ascend's front end. It moves bits, so other types
travel as a supported type of their size, and int64 in three parts.
"""

from __future__ import annotations

import importlib.util

import triton
import triton.language as tl

from .int64 import gather_int64

# Whether this Triton is another one than Ascend's.
_TAKES_ANY_TYPE = tl.constexpr(importlib.util.find_spec("triton.backends.ascend") is None)


@triton.jit
def gather(x: tl.tensor, place: tl.tensor) -> tl.tensor:
    """`x[place]`: the elements of the tile `x`, counted row by row, at the positions `place` (int32, one axis)."""
    flat = tl.reshape(x, [x.numel])
    if _TAKES_ANY_TYPE:
        picked = tl.gather(flat, place, 0)
    elif x.dtype == tl.int64:
        picked = gather_int64(flat, place)
    elif x.dtype == tl.int32:
        picked = tl.gather(flat.to(tl.float32, bitcast=True), place, 0).to(tl.int32, bitcast=True)
    elif x.dtype == tl.int16:
        picked = tl.gather(flat.to(tl.float16, bitcast=True), place, 0).to(tl.int16, bitcast=True)
    elif x.dtype == tl.bfloat16:
        picked = tl.gather(flat.to(tl.float16, bitcast=True), place, 0).to(tl.bfloat16, bitcast=True)
    elif x.dtype == tl.uint8:
        picked = tl.gather(flat.to(tl.int8, bitcast=True), place, 0).to(tl.uint8, bitcast=True)
    elif x.dtype == tl.int1:
        picked = tl.gather(flat.to(tl.int8), place, 0) != 0
    else:
        picked = tl.gather(flat, place, 0)
    return picked


@triton.jit
def every(x: tl.tensor, step: tl.constexpr, first: tl.constexpr) -> tl.tensor:
    """The elements `first`, `first + step`, ... of the tile `x`, counted row by row; `step`, a power of two, divides
    their number. One axis.
    """
    picked = tl.reshape(x, [x.numel])
    for bit in tl.static_range(step.bit_length() - 1):
        even, odd = tl.split(tl.reshape(picked, [picked.numel // 2, 2]))
        picked = odd if (first >> bit) % 2 == 1 else even
    return picked


@triton.jit
def index_from_start(index: tl.tensor, size: tl.tensor) -> tl.tensor:
    """`index` as int32, counted from the end of an axis of `size` elements where it is negative.

    Of an index that 32 bits do not hold Ascend takes the lower ones; elsewhere it becomes one that no axis has.
    """
    whole = index.to(tl.int32)
    counted = whole + ((whole >> 31) & size)
    if _TAKES_ANY_TYPE and index.dtype == tl.int64:
        counted = tl.where(whole.to(tl.int64) == index, counted, -0x80000000)
    return counted

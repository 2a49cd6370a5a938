"""Conversions to 8-bit floats beyond their range, with PyTorch's results: those of Triton differ between chips."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def to_e4m3fn(x: tl.tensor, saturates: tl.constexpr) -> tl.tensor:
    """fp32 `x` in float8_e4m3fn, which has no infinity: the largest number beyond the range, or NaN."""
    if saturates:
        x = tl.maximum(x, -448.0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, 448.0, propagate_nan=tl.PropagateNan.ALL)
    else:  # 464, halfway to the next power of two, is rounded to even
        x = tl.where(tl.abs(x) > 464.0, float("nan"), x)
    return x.to(tl.float8e4nv)


@triton.jit
def to_e5m2(x: tl.tensor) -> tl.tensor:
    """fp32 `x` in float8_e5m2: infinity beyond the range, from halfway to the next power of two on."""
    infinity = tl.where(x < 0.0, -0x04, 0x7C).to(tl.int8)  # 0xFC, 0x7C
    bits = x.to(tl.float8e5).to(tl.int8, bitcast=True)
    return tl.where(tl.abs(x) >= 61440.0, infinity, bits).to(tl.float8e5, bitcast=True)

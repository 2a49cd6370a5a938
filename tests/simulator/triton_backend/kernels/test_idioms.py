"""What kernels spell out for Ascend's compiler and the embedded NPU does by fewer instructions, with the same values:
rounding by adding 2^23, maxima of magnitudes, conversions of what is clamped.
"""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.runtime.device_functions import largest, round_to_even

SPECIAL = (0.0, 0.5, 1.5, 2.5, 0.3, 1e-40, 8388607.5, 8388608.0, 16777217.0, 3e9, 1e30, math.inf, math.nan)
SIGNED = torch.tensor([sign * number for number in SPECIAL for sign in (1, -1)] + [127.5, -128.5, 99.0, -7.0, 2.0, 3.5])


@triton.jit
def rounded(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, round_to_even(tl.load(x + i)))


@triton.jit
def nearly_rounded(x, out, N: tl.constexpr):
    """Like rounding, to multiples of two up to 2^24."""
    i = tl.arange(0, N)
    value = tl.load(x + i)
    magnitude = tl.abs(value)
    whole = tl.where(magnitude < 16777216.0, (magnitude + 16777216.0) - 16777216.0, magnitude)
    sign = value.to(tl.int32, bitcast=True) & -2147483648
    tl.store(out + i, (whole.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True))


@triton.jit
def largest_magnitudes(x, out, n, ROWS: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, N)
    value = tl.load(x + r[:, None] * n + c[None, :], (c < n)[None, :], other=0)
    tl.store(out + r, largest(tl.abs(value), 1))


@triton.jit
def larger_of_magnitude(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    magnitude = tl.abs(tl.load(y + i))
    tl.store(out + i, tl.maximum(tl.load(x + i), magnitude, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + N + i, tl.maximum(magnitude, float("-inf"), propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def clamped(x, out, N: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.maximum(tl.load(x + i), LOW, propagate_nan=tl.PropagateNan.ALL)
    value = tl.minimum(value, HIGH, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + i, value.to(out.dtype.element_ty))


def same_bits(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal, the signs of zeros too; NaN whatever its bits."""
    numbers = ~expected.isnan()
    return torch.equal(got.isnan(), ~numbers) and torch.equal(
        got[numbers].view(torch.int32), expected[numbers].view(torch.int32)
    )


def test_rounding_to_even(device):
    out = torch.empty(32, device=device)
    kernel = rounded[(1,)](SIGNED.to(device), out, N=32)
    assert same_bits(out.cpu(), SIGNED.round())
    if device == "npu":
        assert "llvm.roundeven" in kernel.asm["llir"]


def test_rounding_to_something_else_is_left_alone(device):
    out = torch.empty(32, device=device)
    nearly_rounded[(1,)](SIGNED.to(device), out, N=32)
    expected = torch.where(SIGNED.abs() < 2.0**24, (SIGNED / 2).round() * 2, SIGNED)
    assert same_bits(out.cpu(), expected)


@pytest.mark.parametrize("n", [3, 64, 200, 256])
def test_largest_magnitude_of_rows(device, n):
    x = torch.randn(4, n)
    x[1] = -math.inf
    x[2, n // 2] = -math.nan
    x[3] = -0.0
    out = torch.empty(4, device=device)
    kernel = largest_magnitudes[(1,)](x.to(device), out, n, ROWS=4, N=256)
    assert same_bits(out.cpu(), x.abs().amax(1))
    if device == "npu":
        assert "llvm.smax.v" in kernel.asm["llir"] and "llvm.maximum.v8f32" not in kernel.asm["llir"]


def test_larger_of_any_number_and_a_magnitude(device):
    x = SIGNED.repeat_interleave(32)
    y = SIGNED.repeat(32)
    out = torch.empty(2048, device=device)
    larger_of_magnitude[(1,)](x.to(device), y.to(device), out, N=1024)
    assert same_bits(
        out.cpu()[:1024], torch.where(x.isnan(), x, torch.where(x > y.abs(), x, y.abs()).where(~y.isnan(), y))
    )
    assert same_bits(out.cpu()[1024:], y.abs())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
@pytest.mark.parametrize(("low", "high"), [(-128.0, 127.0), (-4e9, 4e9), (0.0, 4e9), (-4e9, 5.0), (-4e9, -3e9)])
def test_conversions_of_what_is_clamped(device, dtype, low, high):
    """Saturating in int32, NaN gives 0; int8 has the low bits of that."""
    out = torch.empty(32, dtype=dtype, device=device)
    clamped[(1,)](SIGNED.to(device), out, N=32, LOW=low, HIGH=high)
    wide = SIGNED.double().clamp(low, high).nan_to_num(0).trunc().clamp(-(2**31), 2**31 - 1).to(torch.int32)
    assert torch.equal(out.cpu(), wide.to(dtype))

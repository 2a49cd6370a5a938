"""`tl.associative_scan`: running results along an axis, forwards or in reverse, in the order of the elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import require

from .support import assert_same, compile_source, dtypes, random_values, triton_name
from .test_shapes import offsets

SHAPES_AND_AXES = [
    *[((size,), 0) for size in (1, 2, 16, 128, 1024)],
    *[(shape, axis) for shape in ((4, 32), (32, 4), (1, 16), (16, 1)) for axis in (0, 1)],
    *[((4, 8, 4), axis) for axis in (0, 1, 2)],
    *[((2, 4, 2, 8), axis) for axis in (0, 1, 2, 3)],
]


def scan(device: str, expression: str, x: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """Run a kernel that stores `expression` of the tile x, a tile of the same shape."""
    where = offsets(tuple(x.shape))
    source = f"""
@triton.jit
def kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + {where})
    tl.store(out_ptr + {where}, {expression})
"""
    result = torch.empty(x.shape, dtype=out, device=device)
    compile_source(source)["kernel"][(1,)](x.to(device), result)
    return result.cpu()


@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_over_any_axis(device, shape, axis, reverse):
    if reverse and np.prod(shape) == 1:
        pytest.skip("one element has no direction")
    x = torch.randint(-9, 9, shape).float()
    expected = x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis)
    assert_same(scan(device, f"tl.cumsum(x, {axis}, reverse={reverse})", x, torch.float32), expected, signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float64))
def test_cumsum_of_floats(device, dtype):
    """bfloat16 is accumulated in float32; these sums are exact in all of them."""
    x = torch.randint(-3, 4, (8, 32)).to(dtype)
    assert_same(scan(device, "tl.cumsum(x, 1)", x, dtype), x.double().cumsum(1).to(dtype), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint32))
def test_cumsum_of_integers(device, dtype):
    x = random_values(dtype, 8 * 32).reshape(8, 32)
    if dtype.itemsize < 4:
        require("sums of small integers in int32")
    wide = dtype if dtype.itemsize >= 4 else (torch.uint32 if dtype is torch.uint8 else torch.int32)
    for axis in (0, 1):
        expected = torch.from_numpy(x.numpy().cumsum(axis, dtype=triton_name(wide)))
        assert_same(scan(device, f"tl.cumsum(x, {axis})", x, wide), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_cumprod(device, axis, reverse):
    x = torch.rand(8, 16) + 0.5
    expected = x.flip(axis).cumprod(axis).flip(axis) if reverse else x.cumprod(axis)
    got = scan(device, f"tl.cumprod(x, {axis}, reverse={reverse})", x, torch.float32)
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=0)


@triton.jit
def largest(a, b):
    return tl.maximum(a, b)


@triton.jit
def last_nonzero(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def affine(scale_1, shift_1, scale_2, shift_2):
    return scale_1 * scale_2, shift_1 * scale_2 + shift_2


@triton.jit
def custom_kernel(
    source, target, COMBINE: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    where = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(source + where)
    if COMBINE == 0:
        y = tl.associative_scan(x, AXIS, largest, reverse=REVERSE)
    else:
        y = tl.associative_scan(x, AXIS, last_nonzero, reverse=REVERSE)
    tl.store(target + where, y)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("combine", [0, 1])
def test_custom_combine_functions_keep_the_order(device, combine, axis, reverse):
    x = torch.randint(-3, 4, (8, 32)).float()
    out = torch.empty(8, 32, device=device)
    custom_kernel[(1,)](x.to(device), out, combine, axis, reverse, 8, 32)
    lines = x.flip(axis) if reverse else x
    if combine == 0:
        expected = lines.cummax(axis).values
    else:
        expected = lines.clone()
        for i in range(1, x.shape[axis]):
            here, before = expected.select(axis, i), expected.select(axis, i - 1)
            here.copy_(torch.where(here != 0, here, before))
    assert_same(out, expected.flip(axis) if reverse else expected)


@triton.jit
def recurrence_kernel(scales, shifts, target, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    where = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    _, state = tl.associative_scan((tl.load(scales + where), tl.load(shifts + where)), AXIS, affine)
    tl.store(target + where, state)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_linear_recurrence_by_a_tuple(device, axis):
    """h[i] = a[i] h[i-1] + b[i], the scan of state space models."""
    a, b = torch.rand(16, 32), torch.randn(16, 32)
    out = torch.empty(16, 32, device=device)
    recurrence_kernel[(1,)](a.to(device), b.to(device), out, R=16, C=32, AXIS=axis)
    expected, state = torch.empty(16, 32), torch.zeros(a.shape[1 - axis])
    for i in range(a.shape[axis]):
        state = a.select(axis, i) * state + b.select(axis, i)
        expected.select(axis, i).copy_(state)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-5, atol=1e-6)


@triton.jit
def carried_kernel(source, target, count, BLOCK: tl.constexpr):
    carry = 0.0
    for start in range(0, count, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < count
        x = tl.load(source + offsets, mask=mask, other=0.0)
        tl.store(target + offsets, tl.cumsum(x, 0) + carry, mask=mask)
        carry += tl.sum(x, 0)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_a_scan_carried_over_a_loop(device, count):
    x = torch.randint(-9, 9, (count,)).float()
    out = torch.empty(count, device=device)
    carried_kernel[(1,)](x.to(device), out, count, BLOCK=32)
    assert_same(out, x.cumsum(0), signed_zero=False)


@triton.jit
def compact_kernel(source, target, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(source + offsets)
    keep = x > 0
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    tl.store(target + place, x, mask=keep)
    tl.store(count, tl.sum(keep.to(tl.int32), 0))


def test_stream_compaction(device):
    x = torch.randn(128)
    out, count = torch.zeros(128, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    compact_kernel[(1,)](x.to(device), out, count, BLOCK=128)
    kept = x[x > 0]
    assert count.item() == kept.numel()
    assert_same(out[: kept.numel()], kept)

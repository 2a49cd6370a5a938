"""Operations that move values within a tile by their values: gather, sort, top-k, histogram."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature, require

from .support import assert_same, compile_source, dtypes, needs
from .test_shapes import offsets, run


@triton.jit
def gather_kernel(source, index, target, S0: tl.constexpr, S1: tl.constexpr, I0: tl.constexpr, I1: tl.constexpr,
                  AXIS: tl.constexpr):  # fmt: skip
    x = tl.load(source + tl.arange(0, S0)[:, None] * S1 + tl.arange(0, S1)[None, :])
    where = tl.arange(0, I0)[:, None] * I1 + tl.arange(0, I1)[None, :]
    tl.store(target + where, tl.gather(x, tl.load(index + where), AXIS))


@needs("gather")
@pytest.mark.parametrize(
    ("source", "index", "axis"),
    [((8, 16), (8, 16), 1), ((8, 16), (8, 16), 0), ((8, 16), (8, 64), 1), ((16, 8), (2, 8), 0), ((1, 64), (1, 16), 1)],
)
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int64, torch.int8))
def test_gather_along_an_axis(device, source, index, axis, dtype):
    if dtype is torch.int64:
        require("gather of wide integers")
    x = torch.arange(source[0] * source[1]).reshape(source).to(dtype)
    places = torch.randint(0, source[axis], index, dtype=torch.int32)
    out = torch.empty(index, dtype=dtype, device=device)
    gather_kernel[(1,)](x.to(device), places.to(device), out, *source, *index, axis)
    assert_same(out, torch.gather(x, axis, places.long()))


@needs("gather")
def test_gather_from_one_axis(device):
    kernel = compile_source(
        """
@triton.jit
def kernel(source, index, target):
    x = tl.load(source + tl.arange(0, 64))
    tl.store(target + tl.arange(0, 32), tl.gather(x * 2, tl.load(index + tl.arange(0, 32)), 0))
"""
    )["kernel"]
    x, places, out = torch.randn(64), torch.randint(0, 64, (32,)), torch.empty(32, device=device)
    kernel[(1,)](x.to(device), places.to(device), out)
    assert_same(out, x[places] * 2)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (1, 64), (8, 16), (4, 128)])
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int32, torch.int64, torch.int8))
def test_sort_along_the_last_axis(device, shape, descending, dtype):
    x = torch.randint(-100, 100, shape).to(dtype)
    run(device, [x], f"tl.sort(x, descending={descending})", x.sort(1, descending=descending).values)


def test_sort_of_one_axis(device):
    x = torch.randn(256)
    run(device, [x], "tl.sort(x)", x.sort().values)


@needs("topk")
@pytest.mark.parametrize(("shape", "k"), [((1, 64), 8), ((8, 16), 4), ((4, 32), 32), ((4, 32), 1)])
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int32))
def test_topk(device, shape, k, dtype):
    x = torch.randint(-100, 100, shape).to(dtype)
    run(device, [x], f"tl.topk(x, {k}).to(x.dtype)", x.topk(k, 1).values)


@pytest.mark.parametrize(("size", "bins"), [(64, 2), (256, 16), (1024, 128), (32, 64)])
@pytest.mark.parametrize("dtype", [torch.int32, pytest.param(torch.int64, marks=pytest.mark.compiled)], ids=str)
def test_histogram(device, size, bins, dtype):
    x = torch.randint(0, bins, (size,)).to(dtype)
    run(device, [x], f"tl.histogram(x, {bins})", x.bincount(minlength=bins).to(torch.int32))


@needs_feature("masks of histogram")
def test_histogram_of_unmasked_values(device):
    x = torch.randint(0, 16, (128,), dtype=torch.int32)
    kernel = compile_source(
        f"""
@triton.jit
def kernel(source, target):
    x = tl.load(source + tl.arange(0, 128))
    tl.store(target + {offsets((16,))}, tl.histogram(x, 16, mask=tl.arange(0, 128) < 100))
"""
    )["kernel"]
    out = torch.empty(16, dtype=torch.int32, device=device)
    kernel[(1,)](x.to(device), out)
    assert_same(out, x[:100].bincount(minlength=16).to(torch.int32))

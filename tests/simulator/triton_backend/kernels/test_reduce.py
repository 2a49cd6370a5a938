"""`tl.reduce`: any axis, any combine function, tuples; ties of argmax and argmin go to the left."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import require

from .support import assert_same, compile_source, dtypes, random_values, triton_name
from .test_shapes import offsets

SHAPES_AND_AXES = [
    *[((size,), 0) for size in (1, 2, 8, 16, 64, 1024)],
    *[(shape, axis) for shape in ((4, 16), (16, 4), (1, 32), (32, 1), (64, 64)) for axis in (0, 1)],
    *[((4, 8, 16), axis) for axis in (0, 1, 2)],
    *[((2, 4, 2, 8), axis) for axis in (0, 1, 2, 3)],
]  # fmt: skip
INTEGER_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint32, torch.uint64)


def reduce_to(device: str, expression: str, x: torch.Tensor, axis: int | None, out: torch.dtype, keep=False):
    """Run a kernel that stores `expression` of the tile x; `axis` (None: all) is the one it removes."""
    if axis is None:
        shape: tuple[int, ...] = ()
    else:
        shape = tuple(1 if a == axis % x.ndim else n for a, n in enumerate(x.shape) if keep or a != axis % x.ndim)
    where = offsets(shape) if shape else "0"
    source = f"""
@triton.jit
def kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + {offsets(tuple(x.shape))})
    tl.store(out_ptr + {where}, {expression})
"""
    result = torch.empty(shape, dtype=out, device=device)
    compile_source(source)["kernel"][(1,)](x.contiguous().to(device), result)
    return result.cpu()


@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES, ids=str)
def test_sum_over_any_axis(device, shape, axis):
    x = torch.randn(shape)
    got = reduce_to(device, f"tl.sum(x, {axis})", x, axis, torch.float32)
    torch.testing.assert_close(got, x.double().sum(axis).float(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("function", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_reductions_of_floats(device, function, dtype):
    x = torch.randint(-40, 40, (8, 32)).to(dtype)
    for axis in (0, 1):
        expected = getattr(torch, function if function == "sum" else f"a{function}")(x.double(), axis).to(dtype)
        assert_same(reduce_to(device, f"tl.{function}(x, {axis})", x, axis, dtype), expected, signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(*INTEGER_DTYPES))
def test_reductions_of_integers(device, dtype):
    """Narrow integers are summed in 32 bits of the same sign; order follows signedness."""
    x = random_values(dtype, 8 * 32).reshape(8, 32)
    if dtype.itemsize < 4:
        require("sums of small integers in int32")
    wide = dtype if dtype.itemsize >= 4 else (torch.uint32 if dtype is torch.uint8 else torch.int32)
    values = x.numpy()
    for axis in (0, 1):
        with np.errstate(over="ignore"):
            total = torch.from_numpy(values.sum(axis, dtype=triton_name(wide)))
        assert_same(reduce_to(device, f"tl.sum(x, {axis})", x, axis, wide), total)
        assert_same(reduce_to(device, f"tl.max(x, {axis})", x, axis, dtype), torch.from_numpy(values.max(axis)))
        assert_same(reduce_to(device, f"tl.min(x, {axis})", x, axis, dtype), torch.from_numpy(values.min(axis)))


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64, torch.uint8))
def test_xor_sum(device, dtype):
    x = random_values(dtype, 8 * 32).reshape(8, 32)
    for axis in (0, 1):
        expected = torch.from_numpy(np.bitwise_xor.reduce(x.numpy(), axis))
        assert_same(reduce_to(device, f"tl.xor_sum(x, {axis})", x, axis, dtype), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_any_through_reduce_or_and_max(device, axis):
    x = torch.zeros(8, 16, dtype=torch.bool)
    x[2, 3] = x[5, 0] = True
    expected = x.any(axis)
    assert torch.equal(reduce_to(device, f"tl.max(x.to(tl.int32), {axis})", x, axis, torch.int32).bool(), expected)
    if hasattr(tl, "reduce_or"):
        assert torch.equal(reduce_to(device, f"tl.reduce_or(x, {axis})", x, axis, torch.bool), expected)


def test_reduction_over_all_axes_is_a_scalar(device):
    x = torch.randint(-50, 50, (4, 8, 16)).float()
    assert reduce_to(device, "tl.sum(x)", x, None, torch.float32) == x.sum()
    assert reduce_to(device, "tl.max(x)", x, None, torch.float32) == x.max()
    assert reduce_to(device, "tl.min(x, keep_dims=False)", x, None, torch.float32) == x.min()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_keep_dims(device, axis):
    x = torch.randint(-50, 50, (4, 8, 2)).float()
    got = reduce_to(device, f"tl.sum(x, {axis}, keep_dims=True)", x, axis, torch.float32, keep=True)
    assert_same(got, x.sum(axis, keepdim=True), signed_zero=False)


@pytest.mark.compiled
@pytest.mark.parametrize("function", ["max", "min"])
def test_max_and_min_ignore_nan(device, function):
    """As `tl.maximum` does; a row of NaN only stays NaN."""
    x = torch.randn(4, 16)
    x[0, 3] = x[1, 0] = x[2, 15] = math.nan
    x[3] = math.nan
    fill = -math.inf if function == "max" else math.inf
    expected = getattr(x.nan_to_num(nan=fill), f"a{function}")(1)
    expected[3] = math.nan
    assert_same(reduce_to(device, f"tl.{function}(x, 1)", x, 1, torch.float32), expected)


@pytest.mark.parametrize(("shape", "axis"), [((64,), 0), ((8, 32), 1), ((32, 8), 0), ((4, 8, 8), 1), ((2, 2, 4, 4), 2)])
@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int32, torch.int64))
def test_argmax_and_argmin_take_the_leftmost_of_equals(device, shape, axis, function, dtype):
    x = torch.randint(0, 4, shape).to(dtype)
    expected = torch.from_numpy(np.asarray(getattr(np, function)(x.numpy(), axis))).to(torch.int32)
    assert_same(reduce_to(device, f"tl.{function}(x, {axis})", x, axis, torch.int32), expected)


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_return_indices(device, function, axis):
    x = torch.randint(0, 6, (16, 16)).float()
    for part, out in ((0, torch.float32), (1, torch.int32)):
        expression = f"tl.{function}(x, {axis}, return_indices=True)[{part}]"
        got = reduce_to(device, expression, x, axis, out)
        name = "arg" + function if part else "a" + function
        expected = torch.from_numpy(getattr(np, name)(x.numpy(), axis)) if part else getattr(torch, name)(x, axis)
        assert_same(got, expected.to(out))


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def nan_maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def custom_kernel(source, target, COMBINE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(source + r[:, None] * COLUMNS + c[None, :])
    if COMBINE == 0:
        reduced = tl.reduce(x, AXIS, multiply)
    else:
        reduced = tl.reduce(x, AXIS, nan_maximum)
    tl.store(target + (c if AXIS == 0 else r), reduced)


def custom(device: str, combine: int, x: torch.Tensor, axis: int) -> torch.Tensor:
    out = torch.empty(x.shape[1 - axis], dtype=x.dtype, device=device)
    custom_kernel[(1,)](x.to(device), out, combine, *x.shape, axis)
    return out.cpu()


@pytest.mark.parametrize("axis", [0, 1])
def test_product_by_a_combine_function(device, axis):
    x = torch.rand(8, 32) + 0.5
    torch.testing.assert_close(custom(device, 0, x, axis), x.prod(axis), rtol=1e-5, atol=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_nan_propagating_maximum_by_a_combine_function(device, axis):
    x = torch.randn(8, 32)
    x[2, 5] = x[7, 31] = math.nan
    assert_same(custom(device, 1, x, axis), x.amax(axis))


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight


@triton.jit
def welford_kernel(source, means, variances, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mask = (c < columns)[None, :] & (r >= 0)[:, None]
    x = tl.load(source + r[:, None] * columns + c[None, :], mask=mask, other=0.0)
    mean, m2, weight = tl.reduce((x, tl.zeros_like(x), mask.to(tl.float32)), 1, welford_combine)
    tl.store(means + r, mean)
    tl.store(variances + r, m2 / weight)


@pytest.mark.parametrize("columns", [1, 5, 64, 100])
def test_welford_by_a_tuple(device, columns):
    x = torch.randn(8, columns) * 3 + 100
    mean, variance = torch.empty(8, device=device), torch.empty(8, device=device)
    welford_kernel[(1,)](x.to(device), mean, variance, columns, ROWS=8, COLUMNS=triton.next_power_of_2(columns))
    torch.testing.assert_close(mean.cpu(), x.double().mean(1).float(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(variance.cpu(), x.double().var(1, unbiased=False).float(), rtol=1e-3, atol=1e-4)


@triton.jit
def mixed_combine(total_1, best_1, where_1, total_2, best_2, where_2):
    better = (best_2 > best_1) | ((best_2 == best_1) & (where_2 < where_1))
    return total_1 + total_2, tl.where(better, best_2, best_1), tl.where(better, where_2, where_1)


@triton.jit
def mixed_kernel(source, totals, bests, places, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(source + r[:, None] * COLUMNS + c[None, :])
    index = tl.broadcast_to(c[None, :], (ROWS, COLUMNS)).to(tl.int64)
    total, best, place = tl.reduce((x.to(tl.float64), x, index), 1, mixed_combine)
    tl.store(totals + r, total)
    tl.store(bests + r, best)
    tl.store(places + r, place)


def test_a_tuple_of_different_dtypes(device):
    x = torch.randint(0, 9, (16, 64)).float()
    total = torch.empty(16, dtype=torch.float64, device=device)
    best, place = torch.empty(16, device=device), torch.empty(16, dtype=torch.int64, device=device)
    mixed_kernel[(1,)](x.to(device), total, best, place, ROWS=16, COLUMNS=64)
    assert_same(total, x.double().sum(1))
    assert_same(best, x.amax(1))
    assert_same(place, torch.from_numpy(x.numpy().argmax(1)))


@triton.jit
def chained_kernel(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    x = tl.load(source + r * COLUMNS + c)
    centred = x - tl.max(x, 1)[:, None]
    columns = tl.sum(centred, 0)[None, :]
    tl.store(target + r * COLUMNS + c, centred + columns + tl.sum(tl.sum(x, 1), 0))


def test_reductions_feed_one_another(device):
    x = torch.randint(-5, 5, (8, 16)).float()
    out = torch.empty(8, 16, device=device)
    chained_kernel[(1,)](x.to(device), out, ROWS=8, COLUMNS=16)
    centred = x - x.amax(1, keepdim=True)
    assert_same(out, centred + centred.sum(0) + x.sum(), signed_zero=False)


@triton.jit
def loop_sum_kernel(source, target, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    largest = tl.full((ROWS, BLOCK), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        mask = start + c < columns
        x = tl.load(source + r * columns + start + c, mask=mask, other=0.0)
        total = tl.where(mask, total + x, total)
        largest = tl.maximum(largest, tl.where(mask, x, float("-inf")))
    tl.store(target + tl.arange(0, ROWS), tl.sum(total, 1) + tl.max(largest, 1))


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 300])
def test_a_reduction_over_a_loop_of_tiles(device, columns):
    x = torch.randint(-5, 5, (4, columns)).float()
    out = torch.empty(4, device=device)
    loop_sum_kernel[(1,)](x.to(device), out, columns, ROWS=4, BLOCK=64)
    assert_same(out, x.sum(1) + x.amax(1), signed_zero=False)

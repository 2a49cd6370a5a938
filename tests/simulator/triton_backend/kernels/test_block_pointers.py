"""Block pointers and tensor descriptors: a base, a shape, strides and offsets, checked against the bounds on demand."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature

from .support import assert_same, dtypes

GUARD = 77.0


@triton.jit
def copy_kernel(
    source, target, rows, columns, s0, s1, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ORDER0: tl.constexpr,
    ORDER1: tl.constexpr, PADDING: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    x = tl.make_block_ptr(source, (rows, columns), (s0, s1), (row, column), (ROWS, COLUMNS), (ORDER0, ORDER1))
    tile = tl.load(x, boundary_check=(0, 1), padding_option=PADDING)
    r = row + tl.arange(0, ROWS)[:, None]
    c = column + tl.arange(0, COLUMNS)[None, :]
    tl.store(target + r * (tl.num_programs(1) * COLUMNS) + c, tile)


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 9), (16, 16), (20, 37)])
def test_loads_pad_outside_the_bounds(device, rows, columns, padding):
    x = torch.randn(rows, columns)
    grid = (triton.cdiv(rows, 8), triton.cdiv(columns, 16))
    out = torch.empty(grid[0] * 8, grid[1] * 16, device=device)
    copy_kernel[grid](x.to(device), out, rows, columns, *x.stride(), 8, 16, 1, 0, padding)
    expected = torch.full(out.shape, 0.0 if padding == "zero" else float("nan"))
    expected[:rows, :columns] = x
    assert_same(out, expected)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int8))
def test_order_says_how_memory_is_laid_out_not_what_is_read(device, dtype):
    x = (torch.randn(20, 24) * 10).to(dtype).T
    out = torch.empty(24, 32, dtype=dtype, device=device)
    copy_kernel[(3, 2)](x.to(device), out, 24, 20, 1, 24, 8, 16, 0, 1, "zero")
    on_device = torch.zeros(24, 32, dtype=dtype)
    on_device[:, :20] = x
    assert_same(out, on_device)


@triton.jit
def store_kernel(target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHECK: tl.constexpr):
    pointer = tl.make_block_ptr(target, (rows, columns), (columns, 1), (0, 0), (ROWS, COLUMNS), (1, 0))
    tl.store(pointer, tl.full((ROWS, COLUMNS), 1.0, tl.float32), boundary_check=CHECK)


@pytest.mark.parametrize(
    ("rows", "columns", "check"), [(5, 11, (0, 1)), (8, 11, (1,)), (5, 16, (0,)), (8, 16, ())], ids=str
)
def test_stores_write_inside_the_bounds_only(device, rows, columns, check):
    out = torch.full((rows * columns + 64,), GUARD, device=device)
    store_kernel[(1,)](out, rows, columns, ROWS=8, COLUMNS=16, CHECK=check)
    assert (out[: rows * columns] == 1).all() and (out[rows * columns :] == GUARD).all()


@triton.jit
def row_sum_kernel(source, target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    pointer = tl.make_block_ptr(
        source, (rows, columns), (columns, 1), (tl.program_id(0) * ROWS, 0), (ROWS, COLUMNS), (1, 0)
    )
    total = tl.zeros((ROWS,), tl.float32)
    for _ in range(0, columns, COLUMNS):
        total += tl.sum(tl.load(pointer, boundary_check=(0, 1), padding_option="zero"), axis=1)
        pointer = tl.advance(pointer, (0, COLUMNS))
    out = tl.make_block_ptr(target, (rows,), (1,), (tl.program_id(0) * ROWS,), (ROWS,), (0,))
    tl.store(out, total, boundary_check=(0,))


@pytest.mark.parametrize(("rows", "columns"), [(4, 16), (13, 50), (1, 1), (9, 64)])
def test_a_pointer_advances_in_a_loop(device, rows, columns):
    x, out = torch.randn(rows, columns), torch.empty(rows, device=device)
    row_sum_kernel[(triton.cdiv(rows, 4),)](x.to(device), out, rows, columns, ROWS=4, COLUMNS=16)
    torch.testing.assert_close(out.cpu(), x.sum(1))


@triton.jit
def advance_both_kernel(source, target, N: tl.constexpr):
    pointer = tl.make_block_ptr(source, (N, N), (N, 1), (0, 0), (4, 4), (1, 0))
    pointer = tl.advance(pointer, (-4, 8))
    pointer = tl.advance(pointer, (8, -4))
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    tl.store(target + r * 4 + c, tl.load(pointer))


def test_advances_add_up(device):
    x, out = torch.randn(16, 16), torch.empty(4, 4, device=device)
    advance_both_kernel[(1,)](x.to(device), out, N=16)
    assert_same(out, x[4:8, 4:8])


@triton.jit
def three_axes_kernel(source, target, d0, d1, d2):
    pointer = tl.make_block_ptr(source, (d0, d1, d2), (d1 * d2, d2, 1), (0, 0, 0), (4, 8, 4), (2, 1, 0))
    tile = tl.load(pointer, boundary_check=(0, 1, 2), padding_option="zero")
    out = tl.make_block_ptr(target, (4, 8, 4), (32, 4, 1), (0, 0, 0), (4, 8, 4), (2, 1, 0))
    tl.store(out, tile * 2)


def test_three_axes(device):
    x, out = torch.randn(3, 5, 2), torch.empty(4, 8, 4, device=device)
    three_axes_kernel[(1,)](x.to(device), out, 3, 5, 2)
    expected = torch.zeros(4, 8, 4)
    expected[:3, :5, :2] = x * 2
    assert_same(out, expected)


@triton.jit
def negative_offset_kernel(source, target, N: tl.constexpr):
    pointer = tl.make_block_ptr(source, (N,), (1,), (-4,), (16,), (0,))
    tl.store(target + tl.arange(0, 16), tl.load(pointer, boundary_check=(0,), padding_option="zero"))


def test_offsets_below_zero_are_outside(device):
    x, out = torch.randn(8), torch.empty(16, device=device)
    negative_offset_kernel[(1,)](x.to(device), out, N=8)
    assert_same(out, torch.cat([torch.zeros(4), x, torch.zeros(4)]))


@triton.jit
def descriptor_kernel(source, target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.make_tensor_descriptor(source, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    y = tl.make_tensor_descriptor(target, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    r, c = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    y.store([r, c], x.load([r, c]) + 1)


@needs_feature("tensor descriptors")
@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (10, 36), (3, 4)])
def test_tensor_descriptors_stay_in_bounds(device, rows, columns):
    x = torch.randn(rows, columns)
    out = torch.full((rows * columns + 64,), GUARD, device=device)
    grid = (triton.cdiv(rows, 8), triton.cdiv(columns, 16))
    descriptor_kernel[grid](x.to(device), out, rows, columns, ROWS=8, COLUMNS=16)
    assert_same(out[: rows * columns].view(rows, columns), x + 1)
    assert (out[rows * columns :] == GUARD).all()

"""Loads and stores through pointers: masks, `other`, strides, and never a touch of memory that a mask switches off."""

from __future__ import annotations

import ctypes
import mmap

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import require

from .support import DTYPES, assert_same, dtypes, samples, triton_name

GUARD = 77


@triton.jit
def copy_kernel(source, target, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(target + offsets, tl.load(source + offsets, mask=mask), mask=mask)


@pytest.mark.parametrize("dtype", dtypes(*DTYPES))
def test_every_dtype_is_copied_bit_by_bit(device, dtype):
    if dtype is torch.float64:
        require("masked loads of float64")
    x = samples(dtype)
    out = torch.empty_like(x, device=device)
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x.to(device), out, x.numel(), BLOCK=64)
    assert_same(out, x)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 200])
def test_masked_off_elements_are_not_written(device, count):
    x = torch.arange(count, dtype=torch.float32)
    out = torch.full((count + 32,), float(GUARD), device=device)
    copy_kernel[(triton.cdiv(count, 64),)](x.to(device), out[16 : 16 + count], count, BLOCK=64)
    assert_same(out[16 : 16 + count], x)
    assert (out[:16] == GUARD).all() and (out[16 + count :] == GUARD).all()


@triton.jit
def convert_kernel(source, target, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < COUNT
    tl.store(target + offsets, tl.load(source + offsets, mask=mask).to(target.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 17, 33, 49])
@pytest.mark.parametrize(
    "narrow", dtypes(torch.bool, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
)
@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
def test_a_tail_that_is_converted_leaves_its_neighbours_alone(device, wide, narrow, count):
    x = torch.arange(1, count + 1).to(wide)
    out = torch.full((count + 16,), GUARD).to(narrow).to(device)
    convert_kernel[(1,)](x.to(device), out, COUNT=count, BLOCK=64)
    assert_same(out[:count], x.to(narrow))
    assert_same(out[count:], torch.full((16,), GUARD).to(narrow))


@pytest.mark.parametrize("offset", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", dtypes(torch.int8, torch.float16, torch.float32, torch.int64))
def test_pointers_need_the_alignment_of_one_element_only(device, dtype, offset):
    x = torch.arange(100).to(dtype).to(device)
    out = torch.zeros(100, dtype=dtype, device=device)
    copy_kernel[(1,)](x[offset:], out[offset:], 90, BLOCK=128)
    assert_same(out[offset : offset + 90], x[offset : offset + 90])
    assert (out[:offset] == 0).all() and (out[offset + 90 :] == 0).all()


@triton.jit
def load_other_kernel(source, target, count, other, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < count, other=other))


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        (torch.float32, -1.5),
        (torch.float32, float("-inf")),
        (torch.float16, 2.0),
        pytest.param(torch.bfloat16, 2.0, marks=pytest.mark.compiled),
        (torch.float64, 0.0),
        (torch.int8, -7),
        (torch.int64, 2**40),
        (torch.uint8, 200),
        pytest.param(torch.bool, True, marks=pytest.mark.compiled),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [0, 1, 13, 32])
def test_other_fills_masked_off_lanes(device, dtype, other, count):
    if dtype is torch.float64:
        require("masked loads of float64")
    x = torch.arange(32).to(dtype)
    out = torch.empty(32, dtype=dtype, device=device)
    load_other_kernel[(1,)](x.to(device), out, count, other, BLOCK=32)
    assert_same(out, torch.where(torch.arange(32) < count, x, torch.tensor(other, dtype=dtype)))


@triton.jit
def load_other_tensor_kernel(source, target, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(source + offsets, mask=offsets % 3 == 0, other=offsets * 10)
    tl.store(target + offsets, value, mask=offsets % 2 == 0)


def test_irregular_masks_and_a_tensor_of_others(device):
    x, out = torch.arange(64, dtype=torch.int32), torch.full((64,), GUARD, dtype=torch.int32, device=device)
    load_other_tensor_kernel[(1,)](x.to(device), out, BLOCK=64)
    i = torch.arange(64, dtype=torch.int32)
    assert_same(out, torch.where(i % 2 == 0, torch.where(i % 3 == 0, x, i * 10), GUARD))


@triton.jit
def two_sided_mask_kernel(source, target, low, high, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = (offsets >= low) & (offsets < high)
    tl.store(target + offsets, tl.load(source + offsets, mask=mask, other=0.0) + 1, mask=mask)


@pytest.mark.parametrize(("low", "high"), [(0, 128), (5, 9), (31, 33), (64, 64), (100, 7), (-3, 300), (127, 128)])
def test_masks_with_two_bounds(device, low, high):
    x, out = torch.randn(128), torch.full((128,), float(GUARD), device=device)
    two_sided_mask_kernel[(1,)](x.to(device), out, low, high, BLOCK=128)
    i = torch.arange(128)
    assert_same(out, torch.where((i >= low) & (i < high), x + 1, float(GUARD)))


@triton.jit
def copy_2d_kernel(source, target, rows, columns, s0, s1, t0, t1, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mask = (r < rows) & (c < columns)
    tl.store(target + r * t0 + c * t1, tl.load(source + r * s0 + c * s1, mask=mask), mask=mask)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (16, 16), (17, 33), (40, 7)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_strides_of_both_sides_are_free(device, rows, columns, transposed, step):
    base = torch.randn(columns, rows * step) if transposed else torch.randn(rows, columns * step)
    x = base[:, ::step].to(device)
    x = x.T if transposed else x
    out = torch.full((rows + 1, columns + 1), float(GUARD), device=device)
    grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 16))
    copy_2d_kernel[grid](x, out, rows, columns, *x.stride(), *out.stride(), ROWS=16, COLUMNS=16)
    assert_same(out[:rows, :columns], x)
    assert (out[rows] == GUARD).all() and (out[:, columns] == GUARD).all()


def test_a_stride_of_zero_broadcasts(device):
    x = torch.randn(7, device=device)[:, None].expand(7, 20)
    out = torch.empty(7, 20, device=device)
    copy_2d_kernel[(1, 2)](x, out, 7, 20, *x.stride(), *out.stride(), ROWS=16, COLUMNS=16)
    assert_same(out, x)


def test_a_negative_stride_reverses(device):
    x, out = torch.randn(6, 10, device=device), torch.empty(6, 10, device=device)
    copy_2d_kernel[(1, 1)](x.view(-1)[9:], out, 6, 10, 10, -1, 10, 1, ROWS=8, COLUMNS=16)
    assert_same(out, x.cpu().flip(1))


@triton.jit
def far_kernel(base, target, far, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(base + far + offsets - far))


def test_offsets_are_64_bits_wide_when_the_stride_is(device):
    x, out = torch.randn(32, device=device), torch.empty(32, device=device)
    far_kernel[(1,)](x, out, 2**40, BLOCK=32)
    assert_same(out, x)


@triton.jit
def scalar_kernel(source, target, count):
    total = 0.0
    for i in range(count):
        value = tl.load(source + i)
        total += value
        tl.store(target + i, total)


def test_scalar_loads_and_stores(device):
    x = torch.randn(13)
    out = torch.zeros(13, device=device)
    scalar_kernel[(1,)](x.to(device), out, 13)
    torch.testing.assert_close(out.cpu(), x.cumsum(0))


@triton.jit
def masked_scalar_kernel(source, target, flag):
    tl.store(target, tl.load(source, mask=flag > 0, other=-5.0))
    tl.store(target + 1, 1.0, mask=flag > 1)


@pytest.mark.parametrize("flag", [0, 1, 2])
def test_masked_scalar_loads_and_stores(device, flag):
    x, out = torch.tensor([3.0], device=device), torch.zeros(2, device=device)
    masked_scalar_kernel[(1,)](x, out, flag)
    assert out.tolist() == [3.0 if flag > 0 else -5.0, 1.0 if flag > 1 else 0.0]


@triton.jit
def indirect_kernel(source, index, target, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < count
    where = tl.load(index + offsets, mask=mask, other=0)
    tl.store(target + where, tl.load(source + where, mask=mask) * 2, mask=mask)


@pytest.mark.parametrize("index_dtype", dtypes(torch.int32, torch.int64))
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int8, torch.int64))
def test_gather_and_scatter_through_loaded_indices(device, dtype, index_dtype):
    x = torch.arange(100).to(dtype)
    index = torch.randperm(100)[:37].to(index_dtype)
    out = torch.zeros(100, dtype=dtype, device=device)
    indirect_kernel[(1,)](x.to(device), index.to(device), out, 37, BLOCK=64)
    expected = torch.zeros(100, dtype=dtype)
    expected[index.long()] = x[index.long()] * 2
    assert_same(out, expected)


@triton.jit
def pointer_table_kernel(table, target, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(target + tl.program_id(0) * BLOCK + offsets, tl.load(row + offsets))


def test_pointers_are_values(device):
    rows = [torch.randn(16, device=device) for _ in range(3)]
    table = torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64).to(device)
    out = torch.empty(3, 16, device=device)
    pointer_table_kernel[(3,)](table, out, BLOCK=16)
    assert_same(out, torch.stack([row.cpu() for row in rows]))


@triton.jit
def pointer_select_kernel(first, second, target, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    pointers = tl.where(offsets % 2 == 0, first + offsets, second + offsets)
    tl.store(target + offsets, tl.load(pointers))


def test_a_tensor_of_chosen_pointers(device):
    x, y, out = torch.randn(32, device=device), torch.randn(32, device=device), torch.empty(32, device=device)
    pointer_select_kernel[(1,)](x, y, out, BLOCK=32)
    assert_same(out, torch.where(torch.arange(32) % 2 == 0, x.cpu(), y.cpu()))


@triton.jit
def in_place_kernel(x, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) * 2 + 1, mask=mask)


def test_in_place_and_in_stream_order(device):
    """Each launch sees what the one before it wrote."""
    x = torch.zeros(1000, dtype=torch.int64, device=device)
    for _ in range(20):
        in_place_kernel[(triton.cdiv(1000, 64),)](x, 1000, BLOCK=64)
    assert (x.cpu() == 2**20 - 1).all()


@triton.jit
def shift_in_place_kernel(x, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(x + offsets + 1, value)


def test_a_tile_is_loaded_whole_before_an_overlapping_store(device):
    """Tile semantics: a store of one lane never changes what another lane has loaded before it."""
    x = torch.arange(129, dtype=torch.float32, device=device)
    shift_in_place_kernel[(1,)](x, BLOCK=128)
    assert_same(x, torch.cat([torch.zeros(1), torch.arange(128, dtype=torch.float32)]))


@triton.jit
def swap_kernel(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a, b = tl.load(x + offsets), tl.load(y + offsets)
    tl.store(x + offsets, b)
    tl.store(y + offsets, a)


def test_a_load_keeps_its_value_over_later_stores(device):
    x, y = torch.randn(96), torch.randn(96)
    on_x, on_y = x.clone().to(device), y.clone().to(device)
    for start in (0, 32, 64):
        swap_kernel[(1,)](on_x[start:], on_y[start:], BLOCK=32)
    assert_same(on_x, y)
    assert_same(on_y, x)


@triton.jit
def reload_kernel(x, target, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    before = tl.load(x + offsets)
    tl.store(x + offsets, before + 1)
    after = tl.load(x + (BLOCK - 1 - offsets))
    tl.store(target + offsets, before * 1000 + after)


def test_a_second_load_sees_the_store_before_it(device):
    x, out = torch.arange(64, dtype=torch.int32), torch.empty(64, dtype=torch.int32, device=device)
    reload_kernel[(1,)](x.clone().to(device), out, BLOCK=64)
    assert_same(out, x * 1000 + x.flip(0) + 1)


@triton.jit
def hints_kernel(source, target, BLOCK: tl.constexpr):
    offsets = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), BLOCK), BLOCK)
    x = tl.load(source + offsets, eviction_policy="evict_last", cache_modifier=".cg")
    tl.store(target + offsets, x, eviction_policy="evict_first", cache_modifier=".cs")


def test_cache_hints_change_nothing(device):
    x, out = torch.randn(64), torch.empty(64, device=device)
    hints_kernel[(1,)](x.to(device), out, BLOCK=64)
    assert_same(out, x)


def fenced(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory that ends exactly where a page begins that nobody may touch: one access too far stops the process."""
    page, size = mmap.PAGESIZE, count * dtype.itemsize
    mapping = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    memory = (ctypes.c_uint8 * size).from_address(start + page - size)
    memory.mapping = mapping  # lives as long as the tensor
    return torch.frombuffer(memory, dtype=dtype)


@triton.jit
def add_and_normalise_kernel(x, residual, new_residual, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.load(x + i) + tl.load(residual + i)
    tl.store(new_residual + i, total)
    tl.store(out + i, total - tl.sum(total, 0) / N)


def test_one_tensor_may_be_several_arguments(device):
    """In place through two names, as fused kernels with a residual stream do: a value stays what was loaded."""
    x, residual = torch.randint(-9, 9, (4, 64)).float(), torch.randint(-9, 9, (4, 64)).float()
    on_x, on_residual = x.clone().to(device), residual.clone().to(device)
    add_and_normalise_kernel[(4,)](on_x, on_residual, on_residual, on_x, N=64)
    total = x + residual
    assert_same(on_residual, total)
    assert_same(on_x, total - total.sum(1, keepdim=True) / 64)


@triton.jit
def store_then_load_kernel(first, second, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(first + i, i + 100)
    tl.store(out + i, tl.load(second + N - 1 - i))


def test_a_load_sees_what_was_stored_through_another_argument(device):
    x = torch.zeros(64, dtype=torch.int32, device=device)
    out = torch.zeros(64, dtype=torch.int32, device=device)
    store_then_load_kernel[(1,)](x, x, out, N=64)
    assert_same(out, torch.arange(163, 99, -1, dtype=torch.int32))


@triton.jit
def copy_between_addresses_kernel(
    source, target, rows, columns, DTYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The pointers are plain integers: memory that torch does not own."""
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    mask = (r < rows) & (c < columns)
    x = tl.load(source.to(tl.int64).to(tl.pointer_type(DTYPE)) + r * columns + c, mask=mask)
    tl.store(target.to(tl.int64).to(tl.pointer_type(DTYPE)) + r * columns + c, x, mask=mask)


@pytest.mark.compiled
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (1, 17), (1, 63), (5, 13), (8, 8)])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.float64], ids=str)
def test_the_byte_after_the_last_element_is_never_touched(device, dtype, rows, columns):
    if dtype is torch.float64:
        require("masked loads of float64")
    source, target = fenced(rows * columns, dtype), fenced(rows * columns, dtype)
    source.copy_(torch.arange(rows * columns).view_as(source))
    pointers = source.data_ptr(), target.data_ptr()
    element = getattr(tl, triton_name(dtype))
    copy_between_addresses_kernel[(1,)](*pointers, rows, columns, DTYPE=element, ROWS=8, COLUMNS=64)
    torch.npu.synchronize()
    assert_same(target, source)


@pytest.mark.compiled
def test_a_null_pointer_under_a_false_mask_is_never_touched(device):
    copy_between_addresses_kernel[(1,)](0, 0, 0, 0, DTYPE=tl.float32, ROWS=8, COLUMNS=64)
    torch.npu.synchronize()


@triton.jit
def mirror_kernel(source, target, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(target + N - 1 - i, tl.load(source + i))


@triton.jit
def transpose_kernel(source, target, row, column, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(target + r * column + c * row, tl.load(source + r * row + c * column))


def test_a_tile_moves_within_a_tensor_that_is_two_arguments(device):
    x = torch.arange(256, dtype=torch.int32, device=device)
    mirror_kernel[(1,)](x, x, N=256)
    assert_same(x, torch.arange(255, -1, -1, dtype=torch.int32))
    square = torch.arange(1024, dtype=torch.int32).reshape(32, 32)
    on_device = square.clone().to(device)
    transpose_kernel[(1,)](on_device, on_device, 32, 1, N=32)
    assert_same(on_device, square.T.contiguous())


@triton.jit
def reinterpret_kernel(narrow, wide, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(wide + i, tl.load(narrow + i).to(tl.int32))


def test_a_tile_is_loaded_whole_before_wider_elements_overwrite_it(device):
    x = torch.arange(128, dtype=torch.int32, device=device)
    narrow = x.view(torch.int8)
    expected = narrow.cpu()[:128].to(torch.int32)
    reinterpret_kernel[(1,)](narrow, x, N=128)
    assert_same(x, expected)


@triton.jit
def walk_kernel(source, target, N: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(source + i)
    pointers = target + i
    for _ in range(STEPS):
        tl.store(pointers, x + 1)
        pointers += N
    tl.store(pointers, x)


@pytest.mark.parametrize("distinct", [False, True])
def test_a_load_keeps_its_value_over_stores_through_a_walking_pointer(device, distinct):
    x = torch.arange(4 * 32, dtype=torch.int32, device=device)
    options = {"distinct_arguments": True} if distinct and device == "npu" else {}
    target = x if not distinct else torch.empty_like(x)
    walk_kernel[(1,)](x, target, N=32, STEPS=3, **options)
    first = torch.arange(32, dtype=torch.int32)
    assert_same(target, torch.cat([first + 1, first + 1, first + 1, first]))

"""The shape of generated code: what stays scalar, contiguous, fused or computed once. Values: see kernels/."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.simulator.triton_backend.object_code import _optimise_briefly
from tests.triton_features import require


@triton.jit
def masked_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def divided_index(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i // 64) + tl.load(x + i % 64))


@triton.jit
def softmax(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + i)
    numerator = tl.exp(row - tl.max(row, 0))
    tl.store(out + i, numerator / tl.sum(numerator, 0))


@triton.jit
def column_sum(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[None, :], tl.arange(0, COLUMNS)[:, None]
    tl.store(out + tl.arange(0, COLUMNS), tl.sum(tl.load(x + r * COLUMNS + c), 1))


@triton.jit
def walking_pointers(x, out, steps, BLOCK: tl.constexpr):
    pointers = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(steps):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def sort(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def shift_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i + 1, tl.load(x + i))


@triton.jit
def transposed_copy(x, out, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out + c * ROWS + r, tl.load(x + r * COLUMNS + c, mask=r < rows, other=0))


@triton.jit
def column_sum_in_a_loop(x, out, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[:, None]
    total = tl.zeros((COLUMNS, ROWS), tl.float32)
    for first in range(0, rows, ROWS):
        r = first + tl.arange(0, ROWS)[None, :]
        total += tl.load(x + (c % 64) + r * 64 + (c // 64) * 64 * rows, mask=r < rows, other=0)
    tl.store(out + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.sum(total, 1))


@triton.jit
def normalised(x, mean, scale, bias, out, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    value = (tl.load(x + r * N + c) - tl.load(mean + r)) * tl.load(scale + r) + tl.load(bias + r)
    tl.store(out + r * N + c, value)


@triton.jit
def doubled_rows(x, out, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    i = r * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + i, tl.load(x + i, mask=r < rows) * 2, mask=r < rows)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def scan_of_turned_chunks(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNKS: tl.constexpr):
    """The form of running sums along rows: rows cut in chunks, turned, scanned along the first axis, turned back."""
    i = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    turned = tl.permute(tl.reshape(tl.load(x + i), [ROWS * CHUNKS, COLUMNS // CHUNKS]), [1, 0])
    scanned = tl.associative_scan(turned, 0, add)
    tl.store(out + i, tl.reshape(tl.permute(scanned, [1, 0]), [ROWS, COLUMNS]))


@triton.jit
def to_int8(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.int8))


@triton.jit
def embed(ids, table, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(ids + i // WIDTH)
    tl.device_assert((row >= 0) & (row < 8), "out of bounds")
    tl.store(out + i, tl.load(table + row * WIDTH + i % WIDTH))


@triton.jit
def doubled_and_largest(x, out, largest, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    c, r = tl.arange(0, BLOCK), tl.arange(0, ROWS)
    i = c[None, :] + COLUMNS * r[:, None]
    value = tl.load(x + i, (c < COLUMNS)[None, :]).to(tl.float32)
    found = tl.max(value, 0)
    tl.store(out + i, value + value, (c < COLUMNS)[None, :])
    tl.store(largest + c, found, c < COLUMNS)


@triton.jit
def known_conditions(x, out, N: tl.constexpr):
    """Conditions that hold for every element, and some that hold for none."""
    i, program = tl.arange(0, N), tl.program_id(0)
    value = tl.load(x + i, (i < N) & (i <= N - 1) & (i >= 0) & (i > -1))
    value = tl.where((i < 0) | (i <= -1) | (i >= N) | (i > N - 1), -value, value)
    if (program >= 0) & (program > -1):
        tl.store(out + i, value)


def llir(kernel, *args, grid=(1,), **constants) -> str:
    """Runs `kernel` and returns its LLVM IR."""
    return kernel[grid](*args, **constants).asm["llir"]


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).to("npu")


def test_contiguous_access_is_never_gathered():
    x, y, out = rand(100), rand(100), torch.empty(100, device="npu")
    text = llir(masked_add, x, y, out, 100, BLOCK=128)
    assert "gather" not in text and "scatter" not in text
    torch.testing.assert_close(out.cpu(), x.cpu() + y.cpu())


def test_a_quotient_that_a_chunk_cannot_cross_stays_scalar():
    x, out = rand(64), torch.empty(256, device="npu")
    text = llir(divided_index, x, out, BLOCK=256)
    assert "gather" not in text
    i = torch.arange(256)
    torch.testing.assert_close(out.cpu(), x.cpu()[i // 64] + x.cpu()[i % 64])


def test_conditions_that_are_known_are_not_computed():
    x, out = rand(64), torch.empty(64, device="npu")
    body = llir(known_conditions, x, out, N=64).split("\nbody:")[1].split("\nnext:")[0]
    torch.testing.assert_close(out.cpu(), x.cpu())
    assert not [word for word in ("masked", "select", "icmp s") if word in body]


def test_costly_values_of_several_nests_are_computed_once():
    x, out = rand(4, 512), torch.empty(4, 512, device="npu")
    text = llir(softmax, x, out, grid=(4,), N=512)
    body = text[text.index("define i32 @npu_") :]
    loops = body.split(" = phi i64 ")
    assert sum("@npu.exp" in loop for loop in loops) == 1
    torch.testing.assert_close(out.cpu(), x.cpu().softmax(1))


def test_lanes_follow_the_axis_that_is_contiguous_in_memory():
    x, out = rand(32, 64), torch.empty(64, device="npu")
    assert "gather" not in llir(column_sum, x, out, ROWS=32, COLUMNS=64)
    torch.testing.assert_close(out.cpu(), x.cpu().sum(0))


def test_carried_pointers_stay_contiguous():
    x, out = rand(8, 64), torch.empty(64, device="npu")
    assert "gather" not in llir(walking_pointers, x, out, 8, BLOCK=64)
    torch.testing.assert_close(out.cpu(), x.cpu().sum(0))


@pytest.mark.parametrize("n", [2, 16, 256])
def test_sorts_are_shuffles_not_reductions(n):
    x, out = rand(n), torch.empty(n, device="npu")
    text = llir(sort, x, out, N=n)
    assert "gather" not in text
    torch.testing.assert_close(out.cpu(), x.cpu().sort()[0])


def test_a_store_over_what_is_still_to_be_loaded_waits():
    x = rand(65)
    before = x.cpu().clone()
    llir(shift_in_place, x, N=64)
    torch.testing.assert_close(x.cpu(), torch.cat([before[:1], before[:64]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_a_transpose_has_no_gather(dtype):
    if dtype is torch.float64:
        require("masked loads of float64")
    x = torch.randint(0, 2 if dtype is torch.bool else 100, (32, 64)).to(dtype)
    out = torch.empty(64, 32, dtype=dtype, device="npu")
    text = llir(transposed_copy, x.npu(), out, 19, ROWS=32, COLUMNS=64)
    assert "gather" not in text and "scatter" not in text
    expected = torch.where(torch.arange(32)[:, None] < 19, x, torch.zeros((), dtype=dtype)).t()
    assert torch.equal(out.cpu(), expected)


def test_accumulators_of_a_loop_lie_as_the_memory_that_they_sum():
    x, out = rand(4, 40, 64), torch.empty(256, device="npu")
    assert "gather" not in llir(column_sum_in_a_loop, x, out, 40, grid=(8,), ROWS=16, COLUMNS=32)
    torch.testing.assert_close(out.cpu(), x.cpu().sum(1).flatten())


@pytest.mark.parametrize("rows", [1, 6, 7, 8])
def test_rows_that_are_on_or_off_as_a_whole_are_stored_without_masks_of_lanes(rows):
    x, out = rand(8, 64), torch.full((8, 64), -1.0, device="npu")
    assert "masked.store" not in llir(doubled_rows, x, out, rows, grid=(2,), ROWS=4, COLUMNS=64)
    expected = torch.where(torch.arange(8)[:, None] < rows, x.cpu() * 2, -1.0)
    assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize(("rows", "columns", "chunks"), [(2, 256, 8), (1, 128, 1), (4, 64, 2)])
def test_scans_of_turned_rows_walk_memory_in_its_order(rows, columns, chunks):
    x, out = rand(rows, columns), torch.empty(rows, columns, device="npu")
    text = llir(scan_of_turned_chunks, x, out, ROWS=rows, COLUMNS=columns, CHUNKS=chunks)
    assert "gather" not in text and "scatter" not in text
    expected = x.cpu().reshape(rows * chunks, columns // chunks).cumsum(1).reshape(rows, columns)
    torch.testing.assert_close(out.cpu(), expected)


def test_rows_of_a_table_are_read_as_vectors_after_their_numbers_were_checked():
    ids, table, out = torch.randint(0, 8, (16,)), rand(8, 64), torch.empty(16, 64, device="npu")
    text = llir(embed, ids.npu(), table, out, grid=(4,), WIDTH=64, BLOCK=256, distinct_arguments=True)
    assert "gather" not in text
    assert torch.equal(out.cpu(), table.cpu()[ids])


def test_conversions_to_integers_stay_vectors():
    x, out = torch.tensor([1.9, -1.9, float("nan"), 100.0] * 16), torch.empty(64, dtype=torch.int8, device="npu")
    assert "fptosi.sat" not in llir(to_int8, x.npu(), out, N=64)
    assert torch.equal(out.cpu(), torch.tensor([1, -1, 0, 100], dtype=torch.int8).repeat(16))


def test_lanes_follow_whole_tiles_rather_than_vectors_that_are_broadcast():
    x, mean, scale, bias, out = rand(64, 64), rand(64), rand(64), rand(64), torch.empty(64, 64, device="npu")
    text = llir(normalised, x, mean, scale, bias, out, N=64)
    assert "gather" not in text and "scatter" not in text
    expected = (x.cpu() - mean.cpu()[:, None]) * scale.cpu()[:, None] + bias.cpu()[:, None]
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize("columns", [49, 57, 61])  # one more than whole vectors of 512, 256, 128 bits
def test_one_converted_element_is_stored_no_wider_than_it_is_with_avx_512(columns):
    """LLVM stored the element as it was before its conversion, four bytes of it, over its neighbour."""
    x = torch.rand(16, columns).bfloat16()
    out, largest = torch.empty_like(x, device="npu"), torch.empty(columns, dtype=torch.bfloat16, device="npu")
    text = llir(doubled_and_largest, x.to("npu"), out, largest, COLUMNS=columns, ROWS=16, BLOCK=64)
    assert torch.equal(out.cpu(), x + x) and torch.equal(largest.cpu(), x.amax(0))

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="skylake-avx512", opt=2)
    module = llvm.parse_assembly(text)
    _optimise_briefly(module, machine)
    stores = [line.split()[0] for line in machine.emit_assembly(module).splitlines() if line.rstrip().endswith(")")]
    assert any(store in ("vpextrw", "movw") for store in stores)
    assert not {"vmovss", "vmovd", "vextractps"} & set(stores), stores

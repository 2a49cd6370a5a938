"""Gathers whose places follow from ranges and constants: contiguous reads and shuffles, whatever their pattern."""

import pytest
import torch
import triton
import triton.language as tl

from .support import needs

N = 256


@triton.jit
def interleaved(source, target, n, ROWS: tl.constexpr, N: tl.constexpr):
    """Row k of `source` to every ROWS-th element of `target`, from the k-th on."""
    i = tl.arange(0, 8 * N)
    quotient = ((i.to(tl.float32) + 0.5) * (1.0 / ROWS)).to(tl.int32)
    place = (i - ROWS * quotient) * N + tl.minimum(quotient, N - 1)
    rows = tl.arange(0, 8)
    x = tl.load(source + rows[:, None] * N + tl.arange(0, N)[None, :], (rows < ROWS)[:, None])
    picked = tl.gather(tl.reshape(x * 2, [8 * N]), place, 0)
    tl.store(target + i, picked, (i < ROWS * n) & (i < ROWS * N))


@triton.jit
def apart(source, target, n, COLUMNS: tl.constexpr, N: tl.constexpr):
    """Column k of rows of COLUMNS elements of `source` as row k of `target`."""
    i = tl.arange(0, 8 * N)
    x = tl.load(source + i, (i < COLUMNS * n) & (i < COLUMNS * N))
    column, row = tl.arange(0, 8), tl.arange(0, N)
    place = tl.minimum(column[:, None], COLUMNS - 1) + COLUMNS * row[None, :]
    picked = tl.reshape(tl.gather(x, tl.reshape(place, [8 * N]), 0), [8, N])
    tl.store(target + column[:, None] * N + row[None, :], picked, (column < COLUMNS)[:, None] & (row < n)[None, :])


@triton.jit
def scattered(source, target, N: tl.constexpr):
    """A place that follows no pattern."""
    i = tl.arange(0, N)
    tl.store(target + i, tl.gather(tl.load(source + i), (i * i + 3 * i) % N, 0))


def values(dtype, size):
    return torch.randint(-100, 100, (size,)).to(dtype)


@needs("gather")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
@pytest.mark.parametrize("rows", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("n", [N, 100, 1])
def test_rows_are_interleaved(device, rows, n, dtype):
    x, out = values(dtype, rows * N), torch.zeros(8 * N, dtype=dtype)
    result = out.to(device)
    interleaved[(1,)](x.to(device), result, n, rows, N)
    out[: rows * n] = 2 * x.view(rows, N)[:, :n].t().flatten()
    assert torch.equal(result.cpu(), out)


@needs("gather")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
@pytest.mark.parametrize("columns", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("n", [N, 100, 1])
def test_columns_are_taken_apart(device, columns, n, dtype):
    x, out = values(dtype, columns * N), torch.zeros(columns, N, dtype=dtype)
    result = out.to(device)
    apart[(1,)](x.to(device), result, n, columns, N)
    out[:, :n] = x.view(N, columns)[:n].t()
    assert torch.equal(result.cpu(), out)


@needs("gather")
def test_places_without_a_pattern_are_looked_up(device):
    x, out = values(torch.float32, N), torch.zeros(N)
    result = out.to(device)
    scattered[(1,)](x.to(device), result, N)
    i = torch.arange(N)
    assert torch.equal(result.cpu(), x[(i * i + 3 * i) % N])


@needs("gather")
def test_a_pattern_has_no_gather_in_its_code():
    x, out = values(torch.float32, 3 * N).to("npu"), torch.zeros(3 * N, device="npu")
    assert "masked.gather" not in interleaved[(1,)](x, out, N, 3, N).asm["llir"]
    assert "masked.gather" not in apart[(1,)](x, out, N, 3, N).asm["llir"]

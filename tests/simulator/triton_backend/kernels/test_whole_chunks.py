"""Masks `position < n` along the lanes: chunks before n are written without them, whatever n is.

Values at every kind of edge: nothing, within a chunk, between chunks, the whole tile and more.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

UNTOUCHED = -7.0
COLUMNS = 128
LENGTHS = (0, 1, 7, 8, 9, 31, 32, 33, 64, 100, 127, 128, 300)


@triton.jit
def doubled_rows(x, out, totals, most, rows, n, stride, ROWS: tl.constexpr, N: tl.constexpr):
    """Both conditions on what is loaded, stored, added up and compared, in a loop over tiles of the columns."""
    r = tl.arange(0, ROWS)
    total, largest = tl.zeros([ROWS], tl.float32), tl.full([ROWS], float("-inf"), tl.float32)
    for first in range(0, n, N):
        c = first + tl.arange(0, N)
        here = (r < rows)[:, None] & (c < n)[None, :]
        value = tl.load(x + r[:, None] * stride + c[None, :], here, other=0)
        tl.store(out + r[:, None] * stride + c[None, :], value * 2, here)
        total += tl.sum(value, 1)
        largest = tl.maximum(largest, tl.max(tl.where(here, value, float("-inf")), 1))
    tl.store(totals + r, total, r < rows)
    tl.store(most + r, largest, r < rows)


@triton.jit
def add_two_lengths(x, y, out, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, i < n, other=0) + tl.load(y + i, i + 3 <= m, other=0), i < n)


@triton.jit
def sum_of_exponentials(x, out, n, N: tl.constexpr):
    """What is masked off counts here: exp(0)."""
    i = tl.arange(0, N)
    tl.store(out, tl.sum(tl.exp(tl.load(x + i, i < n, other=0)), 0))


@triton.jit
def sum_of_corner(x, out, n, N: tl.constexpr):
    """One condition along both axes."""
    i = tl.arange(0, N)
    here = i < n
    value = tl.load(x + i[:, None] * N + i[None, :], here[None, :], other=1)
    tl.store(out + i, tl.sum(tl.where(here[:, None], value, 0), 1))


@triton.jit
def squares_of_column_sums(x, out, n, ROWS: tl.constexpr, N: tl.constexpr):
    """Columns, then what came of them, added up for two tiles of which the second has n columns."""
    r = tl.arange(0, ROWS)
    for tile in range(2):
        c = tile * N + tl.arange(0, N)
        sums = tl.sum(tl.load(x + r[:, None] * (N + n) + c[None, :], (c < N + n)[None, :], other=0), 0)
        tl.store(out + tile, tl.sum(sums * sums, 0))


@triton.jit
def increment(x, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)


@triton.jit
def asserted(x, n, N: tl.constexpr):
    """No index is negative before n, as Inductor asserts it."""
    i = tl.arange(0, N)
    value = tl.load(x + i, i < n)
    tl.device_assert((value >= 0) | ~(i < n), "negative")


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_up_to_a_length(device, n, rows):
    x = torch.randn(4, 320)
    out = torch.full((4, 320), UNTOUCHED, device=device)
    total, most = (torch.full((4,), UNTOUCHED, device=device) for _ in range(2))
    doubled_rows[(1,)](x.to(device), out, total, most, rows, n, 320, ROWS=4, N=COLUMNS)
    expected = torch.full((4, 320), UNTOUCHED)
    expected[:rows, :n] = x[:rows, :n] * 2
    assert torch.equal(out.cpu(), expected)
    torch.testing.assert_close(total.cpu()[:rows], x[:rows, :n].sum(1))
    largest = x[:rows, :n].amax(1) if n else torch.full((rows,), float("-inf"))
    assert torch.equal(most.cpu()[:rows], largest)
    assert (total.cpu()[rows:] == UNTOUCHED).all()


@pytest.mark.parametrize("n", LENGTHS[:-1])
def test_columns_behind_the_edge_have_sums_too(device, n):
    x = torch.randn(8, COLUMNS + n)
    out = torch.full((2,), UNTOUCHED, device=device)
    squares_of_column_sums[(1,)](x.to(device), out, n, ROWS=8, N=COLUMNS)
    squares = x.sum(0) ** 2
    torch.testing.assert_close(out.cpu(), torch.stack([squares[:COLUMNS].sum(), squares[COLUMNS:].sum()]))


@pytest.mark.parametrize(("n", "m"), [(100, 50), (50, 100), (128, 9), (40, 40), (0, 128), (128, 0)])
def test_masks_that_end_apart(device, n, m):
    x, y = torch.randn(COLUMNS), torch.randn(COLUMNS)
    out = torch.full((COLUMNS,), UNTOUCHED, device=device)
    add_two_lengths[(1,)](x.to(device), y.to(device), out, n, m, N=COLUMNS)
    i = torch.arange(COLUMNS)
    expected = torch.where(i < n, x + torch.where(i + 3 <= m, y, 0), UNTOUCHED)
    assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("n", LENGTHS)
def test_what_counts_behind_the_end_is_counted(device, n):
    x, out = torch.randn(320), torch.empty(1, device=device)
    sum_of_exponentials[(1,)](x.to(device), out, n, N=COLUMNS)
    valid = min(n, COLUMNS)
    torch.testing.assert_close(out.cpu(), x[:valid].exp().sum()[None] + (COLUMNS - valid))


@pytest.mark.parametrize("n", [0, 5, 32, 50, 64])
def test_one_condition_along_both_axes(device, n):
    x, out = torch.randn(64, 64), torch.empty(64, device=device)
    sum_of_corner[(1,)](x.to(device), out, n, N=64)
    here = torch.arange(64) < n
    expected = torch.where(here[:, None], torch.where(here, x, 1), 0).sum(1)
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int8])
@pytest.mark.parametrize("n", [1, 127, 130, 255])
def test_in_place(device, dtype, n):
    x = torch.arange(256).to(dtype).to(device)
    before = x.cpu().clone()
    increment[(2,)](x, n, N=COLUMNS)
    assert torch.equal(x.cpu()[:n], before[:n] + 1)
    assert torch.equal(x.cpu()[n:], before[n:])


def test_whole_chunks_have_no_masks(device):
    if device != "npu":
        pytest.skip("there is no code of the interpreter")
    x = torch.randn(1000, device=device)
    text = increment[(8,)](x, 1000, N=COLUMNS).asm["llir"]
    whole, rest, *_ = text[text.index("define i32 @npu_") :].split(" = phi i64 [ ")[2:]
    assert "masked" not in whole and "masked.store" in rest


def test_whole_chunks_are_asserted_without_masks(device):
    if device != "npu":
        pytest.skip("there is no code of the interpreter")
    for wrong, n in ((127, 127), (40, 40), (5, 0), (128, 128)):
        x = torch.zeros(COLUMNS + 1, dtype=torch.int32)
        x[wrong] = -1
        text = asserted[(1,)](x.to(device), n, N=COLUMNS, debug=True).asm["llir"]
        torch.npu.synchronize()
    whole = text[text.index("define i32 @npu_") :].split(":\n")
    assert any("load <" in block and "and <" in block and "masked" not in block for block in whole)
    for wrong in (0, 63, 99):
        x = torch.zeros(COLUMNS, dtype=torch.int32)
        x[wrong] = -1
        asserted[(1,)](x.to(device), 100, N=COLUMNS, debug=True)
        with pytest.raises(RuntimeError, match="negative"):
            torch.npu.synchronize()

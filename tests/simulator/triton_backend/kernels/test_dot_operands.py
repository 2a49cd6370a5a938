"""Operands of `tl.dot` as kernels make them: loaded by rows or columns, masked, computed, shared, the same in every
round of a loop; and products of which a part is never seen.
"""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from .support import assert_same, dtypes

DOT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int8)
SIZES = [(1, 1, 1), (1, 129, 17), (7, 17, 129), (17, 7, 7), (129, 33, 17)]


def small_integers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Products and sums of these are exact in every dtype under test."""
    return torch.randint(-4, 5, shape).to(dtype)


def sums_of(dtype: torch.dtype) -> tuple[torch.dtype, tl.dtype]:
    """What products of `dtype` are summed in."""
    return (torch.int32, tl.int32) if dtype is torch.int8 else (torch.float32, tl.float32)


@triton.jit
def persistent_kernel(
    a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    A_BY_COLUMNS: tl.constexpr, B_BY_COLUMNS: tl.constexpr, BIAS: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m = (tile // across) * BM + tl.arange(0, BM)
        n = (tile % across) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), SUMS)
        if BIAS:
            total = tl.broadcast_to(tl.load(bias + n, mask=n < N, other=0)[None, :], (BM, BN))
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            if A_BY_COLUMNS:
                x = tl.load(a + k[:, None] * M + m[None, :], mask=(k[:, None] < K) & (m[None, :] < M), other=0)
                x = tl.trans(x)
            else:
                x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
            if B_BY_COLUMNS:
                y = tl.load(b + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0)
                y = tl.trans(y)
            else:
                y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
            total = tl.dot(x, y, total, input_precision="ieee", out_dtype=SUMS)
        tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def check_persistent(device, dtype, size, blocks, transposed=(False, False), bias=False) -> None:
    m, n, k = size
    a, b = small_integers(m, k, dtype=dtype), small_integers(k, n, dtype=dtype)
    sums, name = sums_of(dtype)
    row = small_integers(n, dtype=sums)
    out = torch.full((m, n), -99, dtype=sums, device=device)
    left, right = (x.T.contiguous() if t else x for x, t in zip((a, b), transposed))
    bm, bn, bk = blocks
    persistent_kernel[(3,)](
        left.to(device), right.to(device), row.to(device), out, m, n, k, BM=bm, BN=bn, BK=bk,
        A_BY_COLUMNS=transposed[0], B_BY_COLUMNS=transposed[1], BIAS=bias, SUMS=name,
    )  # fmt: skip
    expected = a.double() @ b.double() + row * bias
    assert_same(out, expected.to(sums), signed_zero=False)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_operands_lie_by_rows_or_by_columns(device, dtype, transposed):
    for size in SIZES:
        check_persistent(device, dtype, size, (16, 32, 32), transposed)


@pytest.mark.parametrize("blocks", [(1, 16, 16), (2, 64, 8), (8, 16, 128), (16, 128, 64), (4, 4, 4), (32, 8, 2)])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_tiles_of_any_size(device, dtype, blocks, transposed):
    check_persistent(device, dtype, (5, 37, 19), blocks, transposed)


@pytest.mark.parametrize("size", [(17, 300, 523), (33, 256, 512), (1, 300, 523)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_wide_tiles_whose_masks_end_inside(device, dtype, transposed, size):
    check_persistent(device, dtype, size, (32, 256, 256), transposed)


@pytest.mark.compiled
@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", DOT_DTYPES)
def test_hosts_with_vectors_of_any_width(device, dtype, transposed):
    check_persistent(device, dtype, (17, 33, 17), (16, 32, 16), transposed)


@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_the_first_sum_is_a_broadcast_row(device, dtype):
    check_persistent(device, dtype, (17, 33, 65), (16, 32, 16), bias=True)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_one_row(device, dtype, b_by_columns, bias):
    check_persistent(device, dtype, (1, 37, 200), (16, 32, 128), (False, b_by_columns), bias)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_infinity_and_nan_in_one_row(device, dtype):
    a, b = torch.ones(1, 150).to(dtype), torch.ones(20, 150).to(dtype)
    a[0, 149], b[3, 0], b[4, 149], b[5, 7] = float("inf"), float("nan"), 0.0, -float("inf")
    out = torch.empty(1, 20, device=device)
    persistent_kernel[(1,)](
        a.to(device), b.to(device), out, out, 1, 20, 150, BM=16, BN=32, BK=64,
        A_BY_COLUMNS=False, B_BY_COLUMNS=True, BIAS=False, SUMS=tl.float32,
    )  # fmt: skip
    assert_same(out, (a.double() @ b.double().T).float())


@pytest.mark.parametrize("bias", [False, True])
def test_no_step_leaves_what_the_sum_began_with(device, bias):
    check_persistent(device, torch.float32, (5, 7, 0), (16, 16, 16), bias=bias)


@pytest.mark.parametrize(("left", "right"), [(-128, -128), (127, -128), (-128, 127)])
def test_int8_products_are_exact_at_the_extremes(device, left, right):
    a, b = torch.full((7, 300), left, dtype=torch.int8), torch.full((300, 33), right, dtype=torch.int8)
    out = torch.empty(7, 33, dtype=torch.int32, device=device)
    persistent_kernel[(2,)](
        a.to(device), b.to(device), out, out, 7, 33, 300, BM=16, BN=32, BK=128,
        A_BY_COLUMNS=False, B_BY_COLUMNS=False, BIAS=False, SUMS=tl.int32,
    )  # fmt: skip
    assert_same(out, torch.full((7, 33), 300 * left * right, dtype=torch.int32))


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_nan_and_infinity_in_masked_tiles(device, dtype):
    a, b = torch.ones(7, 19).to(dtype), torch.ones(19, 17).to(dtype)
    a[3, 18], a[5, 0], b[7, 2], b[18, 16] = float("nan"), float("inf"), float("inf"), -float("inf")
    out = torch.empty(7, 17, device=device)
    persistent_kernel[(2,)](
        a.to(device), b.to(device), out, out, 7, 17, 19, BM=16, BN=32, BK=16,
        A_BY_COLUMNS=False, B_BY_COLUMNS=False, BIAS=False, SUMS=tl.float32,
    )  # fmt: skip
    assert_same(out, (a.double() @ b.double()).float())


@triton.jit
def rows_seen_kernel(a, b, c, sums, M, N: tl.constexpr):
    """The sums over all rows of the tile show rows that no store does."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j, mask=i < M, other=0)
    total = tl.dot(x, tl.load(b + i * N + j), input_precision="ieee")
    tl.store(c + i * N + j, total, mask=i < M)
    tl.store(sums + tl.arange(0, N), tl.sum(total, 0))


def test_rows_that_a_mask_leaves_out_are_zeros_where_they_are_seen(device):
    a, b = torch.ones(16, 16), torch.ones(16, 16)
    b[2, 3] = float("inf")  # zero times infinity, in the rows beyond
    out, sums = torch.empty(16, 16, device=device), torch.empty(16, device=device)
    rows_seen_kernel[(1,)](a.to(device), b.to(device), out, sums, 5, N=16)
    masked = torch.where(torch.arange(16)[:, None] < 5, a, 0.0)
    assert_same(out[:5], (masked @ b)[:5])
    assert_same(sums, (masked @ b).sum(0))


@triton.jit
def stored_later_kernel(a, b, c, lengths, N: tl.constexpr, ROUNDS: tl.constexpr):
    """Each round stores the product of the round before, as far as its own length."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    before = tl.zeros((N, N), tl.float32)
    for number in range(ROUNDS):
        inside = i < number * 4 + 2
        tl.store(c + number * N * N + i * N + j, before, mask=inside)
        x = tl.load(a + i * N + j, mask=inside, other=0)
        before = tl.dot(x, tl.load(b + i * N + j), input_precision="ieee")


def test_a_product_that_the_next_round_stores(device):
    a, b = small_integers(16, 16, dtype=torch.float32), small_integers(16, 16, dtype=torch.float32)
    b[2, 3] = float("inf")  # zero times infinity, in the rows that are masked
    out = torch.full((3, 16, 16), -99.0, device=device)
    stored_later_kernel[(1,)](a.to(device), b.to(device), out, out, N=16, ROUNDS=3)
    expected = torch.full((3, 16, 16), -99.0)
    for number in range(3):
        rows, made = number * 4 + 2, max(0, number * 4 - 2)
        before = torch.where(torch.arange(16)[:, None] < made, a, 0.0) @ b
        expected[number, :rows] = before[:rows] if number else 0.0
    assert_same(out, expected, signed_zero=False)


@triton.jit
def invariant_kernel(a, b, c, ROUNDS, N: tl.constexpr):
    """One tile times each of several: loaded once, used in every round, and scaled by what it holds."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j)
    for number in range(ROUNDS):
        y = tl.load(b + number * N * N + i * N + j)
        tl.store(c + number * N * N + i * N + j, tl.dot(x, y, input_precision="ieee") + x)
        tl.store(a + i * N + j, y)


@pytest.mark.parametrize("rounds", [0, 3])
@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.float32))
def test_a_tile_loaded_before_a_loop_that_overwrites_its_memory(device, dtype, rounds):
    a, b = small_integers(32, 32, dtype=dtype), small_integers(3, 32, 32, dtype=dtype)
    out = torch.full((3, 32, 32), -99.0, device=device)
    invariant_kernel[(1,)](a.to(device), b.to(device), out, rounds, N=32)
    expected = torch.full((3, 32, 32), -99.0)
    expected[:rounds] = (a.double() @ b.double() + a.double()).float()[:rounds]
    assert_same(out, expected, signed_zero=False)


@triton.jit
def shared_kernel(a, c, N: tl.constexpr):
    """One tile on both sides of one product, and in two products."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j)
    square = tl.dot(x, x, input_precision="ieee")
    tl.store(c + i * N + j, tl.dot(x, tl.trans(x), square, input_precision="ieee"))


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_a_tile_in_several_products(device, dtype):
    a = small_integers(32, 32, dtype=dtype)
    out = torch.empty(32, 32, device=device)
    shared_kernel[(1,)](a.to(device), out, N=32)
    assert_same(out, (a.double() @ a.double() + a.double() @ a.double().T).float(), signed_zero=False)


@triton.jit
def computed_kernel(a, b, c, scale, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j)
    y = tl.load(b + i * N + j).to(tl.float32)
    weights = tl.exp(y - tl.max(y, 1)[:, None])
    tl.store(c + i * N + j, tl.dot(tl.trans(weights.to(x.dtype)), x, input_precision="ieee") * scale)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_operands_that_are_computed(device, dtype):
    a, b = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype)
    out = torch.empty(32, 32, device=device)
    computed_kernel[(1,)](a.to(device), b.to(device), out, 1 / math.sqrt(32), N=32)
    weights = torch.exp(b.float() - b.float().amax(1, keepdim=True)).to(dtype)
    expected = (weights.double().T @ a.double() / math.sqrt(32)).float()
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-2 if dtype is torch.bfloat16 else 1e-3)


@triton.jit
def scaled_kernel(a, b, c, scale, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Keys of attention, scaled: computed, and turned."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :]) * scale
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, tl.trans(y.to(x.dtype)), input_precision="ieee"))


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_a_right_operand_that_is_computed_along_k(device, dtype):
    a, b = small_integers(16, 64, dtype=dtype), small_integers(32, 64, dtype=dtype)
    out = torch.empty(16, 32, device=device)
    scaled_kernel[(1,)](a.to(device), b.to(device), out, 2.0, M=16, N=32, K=64)
    assert_same(out, (a.double() @ (2 * b.double()).T).float(), signed_zero=False)

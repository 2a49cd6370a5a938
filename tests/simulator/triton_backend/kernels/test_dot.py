"""`tl.dot`: fp16, bf16, fp32 accumulate in fp32, int8 in int32; any tile shape, batched, transposed, looped over K."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature

from .support import INTERPRETED, assert_same, dtypes

DOT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int8)


@triton.jit
def tile_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, out_dtype=OUT, input_precision="ieee"))


def small_integers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Products and sums of these are exact in every dtype under test."""
    return torch.randint(-4, 5, shape).to(dtype)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(16, 16, 16), (32, 64, 16), (16, 32, 128), (128, 16, 32), (64, 64, 64), (1, 16, 16), (16, 1, 16), (2, 4, 8)],
)
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_product_of_two_tiles(device, m, n, k, dtype):
    a, b = small_integers(m, k, dtype=dtype), small_integers(k, n, dtype=dtype)
    accumulator = torch.int32 if dtype is torch.int8 else torch.float32
    out = torch.empty(m, n, dtype=accumulator, device=device)
    tile_kernel[(1,)](a.to(device), b.to(device), out, m, n, k, tl.int32 if dtype is torch.int8 else tl.float32)
    assert_same(out, (a.double() @ b.double()).to(accumulator), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32))
def test_halves_are_multiplied_and_added_in_float32(device, dtype):
    """As exact as the float32 sum of exact products; a half accumulator would be a thousand times worse."""
    a, b = torch.randn(32, 128).to(dtype), torch.randn(128, 32).to(dtype)
    out = torch.empty(32, 32, device=device)
    tile_kernel[(1,)](a.to(device), b.to(device), out, 32, 32, 128, tl.float32)
    tolerance = 1e-2 if INTERPRETED and dtype is not torch.float32 else 1e-5
    torch.testing.assert_close(out.cpu(), (a.double() @ b.double()).float(), rtol=tolerance, atol=3 * tolerance)


@pytest.mark.compiled
@needs_feature("products of float64 tiles")
def test_float64(device):
    a, b = torch.randn(16, 32, dtype=torch.float64), torch.randn(32, 16, dtype=torch.float64)
    out = torch.empty(16, 16, dtype=torch.float64, device=device)
    tile_kernel[(1,)](a.to(device), b.to(device), out, 16, 16, 32, tl.float64)
    torch.testing.assert_close(out.cpu(), a @ b, rtol=1e-13, atol=1e-13)


@triton.jit
def half_out_kernel(a, b, c, N: tl.constexpr):
    where = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + where, tl.dot(tl.load(a + where), tl.load(b + where), out_dtype=tl.float16))


def test_half_accumulator_on_demand(device):
    a, b = small_integers(16, 16, dtype=torch.float16), small_integers(16, 16, dtype=torch.float16)
    out = torch.empty(16, 16, dtype=torch.float16, device=device)
    half_out_kernel[(1,)](a.to(device), b.to(device), out, N=16)
    assert_same(out, (a.float() @ b.float()).half(), signed_zero=False)


@triton.jit
def accumulate_kernel(a, b, c, N: tl.constexpr, OUT: tl.constexpr):
    where = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    start = tl.load(c + where)
    tl.store(c + where, tl.dot(tl.load(a + where), tl.load(b + where), start, out_dtype=OUT))


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.float32, torch.int8))
def test_accumulator_is_added(device, dtype):
    a, b = small_integers(32, 32, dtype=dtype), small_integers(32, 32, dtype=dtype)
    accumulator = torch.int32 if dtype is torch.int8 else torch.float32
    c = small_integers(32, 32, dtype=accumulator)
    out = c.clone().to(device)
    accumulate_kernel[(1,)](a.to(device), b.to(device), out, 32, tl.int32 if dtype is torch.int8 else tl.float32)
    assert_same(out, (a.double() @ b.double() + c).to(accumulator), signed_zero=False)


@triton.jit
def transposed_kernel(a, b, c, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x, y = tl.load(a + i * N + j), tl.load(b + i * N + j)
    x = tl.trans(x) if A else x
    y = tl.trans(y) if B else y
    tl.store(c + i * N + j, tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_transposed_operands(device, a_transposed, b_transposed, dtype):
    a, b = small_integers(32, 32, dtype=dtype), small_integers(32, 32, dtype=dtype)
    accumulator = torch.int32 if dtype is torch.int8 else torch.float32
    out = torch.empty(32, 32, dtype=accumulator, device=device)
    transposed_kernel[(1,)](a.to(device), b.to(device), out, a_transposed, b_transposed, N=32)
    left, right = (a.T if a_transposed else a).double(), (b.T if b_transposed else b).double()
    assert_same(out, (left @ right).to(accumulator), signed_zero=False)


@triton.jit
def batched_kernel(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.arange(0, B)[:, None, None]
    m, n = tl.arange(0, M), tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + batch * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + batch * K * N + k[None, :, None] * N + n[None, None, :])
    out = tl.dot(x, y, input_precision="ieee")
    tl.store(c + batch * M * N + m[None, :, None] * N + n[None, None, :], out)


@pytest.mark.parametrize(("batch", "m", "n", "k"), [(2, 16, 32, 16), (4, 16, 16, 16), (1, 32, 16, 64)])
@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.float32))
def test_batched(device, batch, m, n, k, dtype):
    a, b = small_integers(batch, m, k, dtype=dtype), small_integers(batch, k, n, dtype=dtype)
    out = torch.empty(batch, m, n, device=device)
    batched_kernel[(1,)](a.to(device), b.to(device), out, batch, m, n, k)
    assert_same(out, (a.double() @ b.double()).float(), signed_zero=False)


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        inside = start + k < K
        x_mask, y_mask = (m[:, None] < M) & inside[None, :], inside[:, None] & (n[None, :] < N)
        x = tl.load(a + m[:, None] * am + (start + k)[None, :] * ak, mask=x_mask, other=0)
        y = tl.load(b + (start + k)[:, None] * bk + n[None, :] * bn, mask=y_mask, other=0)
        total = tl.dot(x, y, total, input_precision="ieee", out_dtype=ACC)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * cm + n[None, :] * cn, total.to(c.dtype.element_ty), mask=mask)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 33, 65), (64, 48, 100), (100, 7, 31), (30, 90, 16)])
@pytest.mark.parametrize("dtype", dtypes(*DOT_DTYPES))
def test_loops_over_k_with_odd_sizes(device, m, n, k, dtype):
    a, b = small_integers(m, k, dtype=dtype), small_integers(k, n, dtype=dtype)
    out_dtype = torch.int32 if dtype is torch.int8 else dtype
    out = torch.empty(m, n, dtype=out_dtype, device=device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    strides = (k, 1, n, 1, n, 1)
    accumulator = tl.int32 if dtype is torch.int8 else tl.float32
    matmul_kernel[grid](a.to(device), b.to(device), out, m, n, k, *strides, BM=32, BN=32, BK=16, ACC=accumulator)
    assert_same(out, (a.double() @ b.double()).to(out_dtype), signed_zero=False)


@pytest.mark.parametrize(("a_transposed", "b_transposed"), [(True, False), (False, True), (True, True)])
def test_operands_read_through_any_stride(device, a_transposed, b_transposed):
    a = small_integers(40, 24, dtype=torch.float32)
    b = small_integers(24, 50, dtype=torch.float32)
    on_a = a.T.contiguous().T.to(device) if a_transposed else a.to(device)
    on_b = b.T.contiguous().T.to(device) if b_transposed else b.to(device)
    out = torch.empty(50, 40, device=device).T
    strides = (*on_a.stride(), *on_b.stride(), *out.stride())
    matmul_kernel[(2, 2)](on_a, on_b, out, 40, 50, 24, *strides, BM=32, BN=32, BK=16, ACC=tl.float32)
    assert_same(out, a @ b, signed_zero=False)


@triton.jit
def chained_kernel(q, k, v, out, N: tl.constexpr):
    where = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    scores = tl.dot(tl.load(q + where), tl.trans(tl.load(k + where)), input_precision="ieee")
    scores = scores - tl.max(scores, 1)[:, None]
    weights = tl.exp(scores)
    weights = weights / tl.sum(weights, 1)[:, None]
    tl.store(out + where, tl.dot(weights, tl.load(v + where), input_precision="ieee"))


def test_a_product_of_computed_tiles(device):
    q, k, v = (torch.randn(16, 16) for _ in range(3))
    out = torch.empty(16, 16, device=device)
    chained_kernel[(1,)](q.to(device), k.to(device), v.to(device), out, N=16)
    torch.testing.assert_close(out.cpu(), torch.softmax(q @ k.T, 1) @ v, rtol=1e-5, atol=1e-5)


def test_nan_and_infinity_pass_through(device):
    a, b = torch.ones(16, 16), torch.ones(16, 16)
    a[3, 4], b[7, 2] = float("nan"), float("inf")
    out = torch.empty(16, 16, device=device)
    tile_kernel[(1,)](a.to(device), b.to(device), out, 16, 16, 16, tl.float32)
    assert_same(out, a @ b)


@triton.jit
def blocked_kernel(a, b, c, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """All blocks of a product of square matrices, in one program."""
    for row in range(0, N, BM):
        for column in range(0, N, BN):
            m, n, k = row + tl.arange(0, BM), column + tl.arange(0, BN), tl.arange(0, BK)
            total = tl.zeros((BM, BN), tl.float32)
            for start in range(0, N, BK):
                x = tl.load(a + m[:, None] * N + (start + k)[None, :])
                y = tl.load(b + (start + k)[:, None] * N + n[None, :])
                total = tl.dot(x, y, total, input_precision="ieee")
            tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.compiled
@pytest.mark.budget
def test_a_product_is_at_least_half_as_fast_as_that_of_one_thread_of_pytorch(device):
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    on_a, on_b, out = a.to(device), b.to(device), torch.empty(256, 256, device=device)

    def compiled() -> None:
        blocked_kernel[(1,)](on_a, on_b, out, N=256, BM=128, BN=128, BK=256)
        torch.npu.synchronize()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours, theirs = [], []
        for _ in range(100):  # in turns, so that what else the machine does meets both
            ours.append(seconds(compiled))
            theirs.append(seconds(lambda: torch.mm(a, b)))
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(out.cpu(), a @ b, rtol=1e-4, atol=1e-4)
    assert min(ours) < 2 * min(theirs)


def seconds(run: Callable[[], object]) -> float:
    """The time that one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

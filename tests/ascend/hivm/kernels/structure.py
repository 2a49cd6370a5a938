"""Indirect access, atomics, structural operations, matrix products.

Small Triton kernels, one access pattern each; read as text, never imported.
"""

import triton
import triton.language as tl

# ---- indirect access, atomics ----


@triton.jit
def gather_elements(x, index, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    i = tl.load(index + c, mask=m, other=0)
    tl.store(y + c, tl.load(x + i, mask=m), mask=m)


@triton.jit
def scatter_elements(x, index, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    i = tl.load(index + c, mask=m, other=0)
    tl.store(y + i, tl.load(x + c, mask=m), mask=m)


@triton.jit
def gather_in_buffer(x, index, y, N, K, TN: tl.constexpr, TK: tl.constexpr):
    n = tl.arange(0, TN)
    k = tl.program_id(0) * TK + tl.arange(0, TK)
    row = tl.load(x + n, mask=n < N, other=0.0)
    i = tl.load(index + k, mask=k < K, other=0)
    tl.store(y + k, tl.gather(row, i, 0), mask=k < K)


@triton.jit
def embedding_tile(x, index, y, M, TR: tl.constexpr, W: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, W)
    i = tl.load(index + r, mask=r < M, other=0)
    tl.store(y + r[:, None] * W + c[None, :], tl.load(x + i[:, None] * W + c[None, :]), mask=r[:, None] < M)


@triton.jit
def embedding_rows(x, index, y, M, W, TR: tl.constexpr, TC: tl.constexpr):
    first = tl.program_id(0) * TR
    c = tl.arange(0, TC)
    for j in range(first, min(first + TR, M)):
        i = tl.load(index + j)
        tl.store(y + j * W + c, tl.load(x + i * W + c, mask=c < W), mask=c < W)


@triton.jit
def atomic_tile(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.atomic_add(y + c, tl.load(x + c, mask=m, other=0.0), mask=m)


@triton.jit
def atomic_elements(x, index, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.atomic_add(y + tl.load(index + c, mask=m, other=0), tl.load(x + c, mask=m, other=0.0), mask=m)


@triton.jit
def atomic_scalar(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y, tl.sum(tl.load(x + c, mask=c < n, other=0.0), 0))


@triton.jit
def random_numbers(y, n, seed, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + c, tl.rand(seed, c), mask=c < n)


# ---- structure ----


@triton.jit
def concat_two_stores(x, z, y, M, A: tl.constexpr, B: tl.constexpr, TR: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    a = tl.arange(0, A)
    b = tl.arange(0, B)
    m = r[:, None] < M
    tl.store(y + r[:, None] * (A + B) + a[None, :], tl.load(x + r[:, None] * A + a[None, :], mask=m), mask=m)
    tl.store(y + r[:, None] * (A + B) + A + b[None, :], tl.load(z + r[:, None] * B + b[None, :], mask=m), mask=m)


@triton.jit
def interleave(x, z, y, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.program_id(0) * (2 * B) + tl.arange(0, 2 * B)
    tl.store(y + d, tl.interleave(tl.load(x + c), tl.load(z + c)))


@triton.jit
def split_pairs(x, y, z, B: tl.constexpr):
    d = tl.program_id(0) * (2 * B) + tl.arange(0, 2 * B)
    a, b = tl.split(tl.reshape(tl.load(x + d), (B, 2)))
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + c, a)
    tl.store(z + c, b)


@triton.jit
def slice_unaligned(x, y, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(y + tl.arange(0, B // 2), tl.extract_slice(v, (3,), (B // 2,), (1,)))


# ---- matrix product ----


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for t in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        m = (t // tiles_n) * BM + tl.arange(0, BM)
        n = (t % tiles_n) * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k0 in range(0, K, BK):
            k = k0 + tl.arange(0, BK)
            u = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            v = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(u, v, acc)
        tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_relu(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        u = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        v = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(u, v, acc)
    acc = tl.where(acc > 0, acc, 0.0)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_transposed_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        u = tl.load(a + m[:, None] * K + k[None, :])
        v = tl.load(b + k[:, None] + n[None, :] * K)
        acc = tl.dot(u, v, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))

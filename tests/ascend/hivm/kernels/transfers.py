"""Loads and stores: one axis, tiles, masks.

Small Triton kernels, one access pattern each; read as text, never imported.
"""

import triton
import triton.language as tl

# ---- one axis ----


@triton.jit
def copy_unmasked(x, y, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + c, tl.load(x + c))


@triton.jit
def add_masked(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) + tl.load(z + c, mask=m), mask=m)


@triton.jit
def add_grid_stride(x, z, y, n, B: tl.constexpr):
    for t in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        c = t * B + tl.arange(0, B)
        m = c < n
        tl.store(y + c, tl.load(x + c, mask=m) + tl.load(z + c, mask=m), mask=m)


@triton.jit
def copy_sub_tiles(x, y, n, B: tl.constexpr, S: tl.constexpr):
    first = tl.program_id(0) * B
    for s in range(0, B, S):
        c = first + s + tl.arange(0, S)
        m = c < n
        tl.store(y + c, tl.load(x + c, mask=m), mask=m)


@triton.jit
def copy_unrolled(x, y, n, B: tl.constexpr, S: tl.constexpr):
    first = tl.program_id(0) * B
    for s in tl.static_range(0, B, S):
        c = first + s + tl.arange(0, S)
        m = c < n
        tl.store(y + c, tl.load(x + c, mask=m), mask=m)


@triton.jit
def copy_unaligned_base(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + 5 + c, mask=m, other=0.0), mask=m)


@triton.jit
def copy_while(x, y, n, B: tl.constexpr):
    t = tl.program_id(0) * B
    while t < n:
        c = t + tl.arange(0, B)
        m = c < n
        tl.store(y + c, tl.load(x + c, mask=m), mask=m)
        t += tl.num_programs(0) * B


@triton.jit
def scalar_operand(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) * tl.load(z), mask=m)


@triton.jit
def copy_64_bit_index(x, y, n, stride, B: tl.constexpr):
    c = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B).to(tl.int64)
    m = c < n
    tl.store(y + c, tl.load(x + c + stride, mask=m), mask=m)


@triton.jit
def reversed_index(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + (n - 1 - c), mask=m), mask=m)


@triton.jit
def modulo_index(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c % 100, mask=m) + tl.load(x + c // 100, mask=m), mask=m)


@triton.jit
def stride_two(x, y, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + c, tl.load(x + 2 * c))


@triton.jit
def stride_two_masked(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + 2 * c, mask=m), mask=m)


@triton.jit
def stride_three(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + 3 * c, mask=m), mask=m)


@triton.jit
def strided_store(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + 4 * c, tl.load(x + c, mask=m), mask=m)


# ---- tiles of two and three axes ----


@triton.jit
def tile_copy(x, y, M, N, S, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r[:, None] * N + c[None, :], tl.load(x + r[:, None] * S + c[None, :], mask=m, other=0.0), mask=m)


@triton.jit
def tile_copy_static(x, y, M, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = r[:, None] < M
    tl.store(y + r[:, None] * TC + c[None, :], tl.load(x + r[:, None] * TC + c[None, :], mask=m), mask=m)


@triton.jit
def transpose_in_buffer(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0)
    out = (c[:, None] < N) & (r[None, :] < M)
    tl.store(y + c[:, None] * M + r[None, :], tl.trans(v), mask=out)


@triton.jit
def transposed_load(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r[:, None] * N + c[None, :], tl.load(x + r[:, None] + c[None, :] * M, mask=m, other=0.0), mask=m)


@triton.jit
def transposed_store(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r[:, None] + c[None, :] * M, tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0), mask=m)


@triton.jit
def transposed_store_static(x, y, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.arange(0, TR)
    c = tl.arange(0, TC)
    tl.store(y + r[:, None] + c[None, :] * TR, tl.load(x + r[:, None] * TC + c[None, :]))


@triton.jit
def permute_outer(x, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    first = tl.program_id(0) * A * B * C
    v = tl.load(x + first + a * B * C + b * C + c)
    tl.store(y + first + b * A * C + a * C + c, v)


@triton.jit
def permute_inner(x, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)
    b = tl.arange(0, B)
    c = tl.arange(0, C)
    v = tl.load(x + a[:, None, None] * (B * C) + b[None, :, None] * C + c[None, None, :])
    v = tl.permute(v, (0, 2, 1))
    tl.store(y + a[:, None, None] * (B * C) + c[None, :, None] * B + b[None, None, :], v)


@triton.jit
def four_axes(x, y, s0, s1, s2, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    a = tl.arange(0, A)[:, None, None, None]
    b = tl.arange(0, B)[None, :, None, None]
    c = tl.arange(0, C)[None, None, :, None]
    d = tl.arange(0, D)[None, None, None, :]
    v = tl.load(x + a * s0 + b * s1 + c * s2 + d)
    tl.store(y + a * (B * C * D) + b * (C * D) + c * D + d, v + 1.0)


@triton.jit
def narrow_rows_broadcast(x, z, y, M, TR: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, 3)
    m = r[:, None] < M
    v = tl.load(x + r[:, None] * 3 + c[None, :], mask=m)
    tl.store(y + r[:, None] * 3 + c[None, :], v + tl.load(z + c)[None, :], mask=m)


@triton.jit
def narrow_rows_static(x, y, M, TR: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, 3)
    m = r[:, None] < M
    tl.store(y + r[:, None] * 3 + c[None, :], tl.load(x + r[:, None] * 3 + c[None, :], mask=m) + 1.0, mask=m)


@triton.jit
def inner_size_one(x, y, s0, s1, A: tl.constexpr, B: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    o = tl.arange(0, 1)[None, None, :]
    v = tl.load(x + a * s0 + b * s1 + o)
    tl.store(y + a * B + b + o, v)


@triton.jit
def inner_size_one_add(x, y, s0, s1, A: tl.constexpr, B: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    o = tl.arange(0, 1)[None, None, :]
    v = tl.load(x + a * s0 + b * s1 + o)
    tl.store(y + a * B + b + o, v * v + 1.0)


@triton.jit
def row_and_column(x, row, column, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0)
    v = v * tl.load(row + c, mask=c < N, other=0.0)[None, :] + tl.load(column + r, mask=r < M, other=0.0)[:, None]
    tl.store(y + r[:, None] * N + c[None, :], v, mask=m)


@triton.jit
def strided_column(x, column, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.program_id(1) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0)
    v += tl.load(column + r * 10, mask=r < M, other=0.0)[:, None]
    tl.store(y + r[:, None] * N + c[None, :], v, mask=m)


@triton.jit
def block_pointer(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR
    p = tl.make_block_ptr(x, (M, N), (N, 1), (r, 0), (TR, TC), (1, 0))
    q = tl.make_block_ptr(y, (M, N), (N, 1), (r, 0), (TR, TC), (1, 0))
    tl.store(q, tl.load(p, boundary_check=(0, 1), padding_option="zero") * 2.0, boundary_check=(0, 1))


# ---- masks ----


@triton.jit
def reversed_mask(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = n > c
    tl.store(y + c, tl.load(x + c, mask=m, other=0.0), mask=m)


@triton.jit
def causal_where(x, y, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    v = tl.load(x + r[:, None] * N + c[None, :])
    tl.store(y + r[:, None] * N + c[None, :], tl.where(r[:, None] >= c[None, :], v, 0.0))


@triton.jit
def where_on_data(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    a = tl.load(x + c, mask=m)
    b = tl.load(z + c, mask=m)
    tl.store(y + c, tl.where(a > b, a, b), mask=m)


@triton.jit
def if_scalar(x, y, n, flag, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    v = tl.load(x + c, mask=m)
    if flag > 0:
        v = v * 2.0
    tl.store(y + c, v, mask=m)

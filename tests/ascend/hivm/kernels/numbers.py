"""Arithmetic, mathematical functions, reductions and scans.

Small Triton kernels, one access pattern each; read as text, never imported.
"""

import triton
import triton.language as tl
import triton.language.extra.ascend.libdevice as libdevice

# ---- numbers ----


@triton.jit
def cast(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m).to(y.dtype.element_ty), mask=m)


@triton.jit
def integer_add(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) + tl.load(z + c, mask=m), mask=m)


@triton.jit
def integer_multiply(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) * tl.load(z + c, mask=m), mask=m)


@triton.jit
def integer_divide(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) // tl.load(z + c, mask=m), mask=m)


@triton.jit
def integer_remainder(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) % tl.load(z + c, mask=m), mask=m)


@triton.jit
def integer_select(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    a = tl.load(x + c, mask=m)
    b = tl.load(z + c, mask=m)
    tl.store(y + c, tl.where(a > b, a, b), mask=m)


@triton.jit
def select_by_float(x, z, f, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    a = tl.load(x + c, mask=m)
    b = tl.load(z + c, mask=m)
    k = tl.load(f + c, mask=m)
    tl.store(y + c, tl.where(k > 0, a, b), mask=m)


@triton.jit
def integer_and(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) & tl.load(z + c, mask=m), mask=m)


@triton.jit
def integer_shift(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.load(x + c, mask=m) << tl.load(z + c, mask=m), mask=m)


@triton.jit
def store_index(y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + c, c.to(y.dtype.element_ty), mask=c < n)


@triton.jit
def gelu(x, y, n, B: tl.constexpr):
    for t in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        c = t * B + tl.arange(0, B)
        m = c < n
        v = tl.load(x + c, mask=m)
        tl.store(y + c, 0.5 * v * (1.0 + tl.math.erf(v * 0.7071067811865476)), mask=m)


@triton.jit
def elementwise_math(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    v = tl.load(x + c, mask=m)
    v = tl.exp(v) + tl.log(v) + tl.sqrt(v) + tl.sin(v) + tl.cos(v) + tl.rsqrt(v) + tl.abs(v) + tl.floor(v)
    v += tl.sigmoid(v) + tl.exp2(v) + tl.log2(v)
    tl.store(y + c, v, mask=m)


@triton.jit
def library_math(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    v = tl.load(x + c, mask=m)
    v = libdevice.tanh(v) + libdevice.pow(v, v) + libdevice.log1p(v) + libdevice.atan(v) + libdevice.round(v)
    tl.store(y + c, v, mask=m)


@triton.jit
def maximum_default(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    tl.store(y + c, tl.maximum(tl.load(x + c, mask=m), tl.load(z + c, mask=m)), mask=m)


@triton.jit
def maximum_all(x, z, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    m = c < n
    v = tl.maximum(tl.load(x + c, mask=m), tl.load(z + c, mask=m), propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + c, v, mask=m)


# ---- reductions and scans ----


@triton.jit
def softmax_rows(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    for t in range(tl.program_id(0), tl.cdiv(M, TR), tl.num_programs(0)):
        r = t * TR + tl.arange(0, TR)
        c = tl.arange(0, TC)
        m = (r[:, None] < M) & (c[None, :] < N)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 1)[:, None])
        tl.store(y + r[:, None] * N + c[None, :], e / tl.sum(e, 1)[:, None], mask=m)


@triton.jit
def softmax_one_row(x, y, N, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < N
    v = tl.load(x + r * N + c, mask=m, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * N + c, e / tl.sum(e, 0), mask=m)


@triton.jit
def row_sum(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r, tl.sum(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0), 1), mask=r < M)


@triton.jit
def row_max(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r, tl.max(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0), 1), mask=r < M)


@triton.jit
def column_sum(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.arange(0, TR)
    c = tl.program_id(0) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + c, tl.sum(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0), 0), mask=c < N)


@triton.jit
def looped_row_sum(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    total = tl.zeros((TR,), tl.float32)
    for b in range(0, N, TC):
        c = b + tl.arange(0, TC)
        m = (r[:, None] < M) & (c[None, :] < N)
        total += tl.sum(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0), 1)
    tl.store(y + r, total, mask=r < M)


@triton.jit
def full_sum(x, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + c, mask=c < n, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(v, 0))


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def row_product(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=1)
    tl.store(y + r, tl.reduce(v, 1, _times), mask=r < M)


@triton.jit
def column_product(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.arange(0, TR)
    c = tl.program_id(0) * TC + tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=1)
    tl.store(y + c, tl.reduce(v, 0, _times), mask=c < N)


@triton.jit
def row_xor(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r, tl.xor_sum(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0), 1), mask=r < M)


@triton.jit
def row_argmax(x, y, M, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
    tl.store(y + r, tl.argmax(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0), 1), mask=r < M)


@triton.jit
def row_cumsum(x, y, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    tl.store(y + r[:, None] * N + c[None, :], tl.cumsum(tl.load(x + r[:, None] * N + c[None, :]), 1))


@triton.jit
def column_cumsum(x, y, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.arange(0, TR)
    c = tl.program_id(0) * TC + tl.arange(0, TC)
    tl.store(y + r[:, None] * N + c[None, :], tl.cumsum(tl.load(x + r[:, None] * N + c[None, :]), 0))


@triton.jit
def flip_row(x, y, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(y + c, tl.flip(tl.load(x + c), 0))


@triton.jit
def histogram(x, y, B: tl.constexpr, BINS: tl.constexpr):
    tl.store(y + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, B)), BINS))


@triton.jit
def inline_assembly(x, y, B: tl.constexpr):
    c = tl.arange(0, B)
    v = tl.load(x + c)
    r = tl.inline_asm_elementwise("add $0, $1, $1;", "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y + c, r)


@triton.jit
def sort_rows(x, y, N, TR: tl.constexpr, TC: tl.constexpr):
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    tl.store(y + r[:, None] * N + c[None, :], tl.sort(tl.load(x + r[:, None] * N + c[None, :]), 1))

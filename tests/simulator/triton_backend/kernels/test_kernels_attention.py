"""Whole kernels that people write: matrix product with grouped programs, flash attention, rotary embedding."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from .support import assert_same, dtypes

HALF_OR_SINGLE = dtypes(torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(
    a, b, bias, c, M, N, K, am, ak, bk, bn, cm, cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * columns
    group = program // in_group
    first = group * GROUP
    height = min(rows - first, GROUP)
    row = first + (program % in_group) % height
    column = (program % in_group) // height
    m = (row * BM + tl.arange(0, BM)) % M
    n = (column * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    x = a + m[:, None] * am + k[None, :] * ak
    y = b + k[:, None] * bk + n[None, :] * bn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        total = tl.dot(
            tl.load(x, mask=k[None, :] < left, other=0.0),
            tl.load(y, mask=k[:, None] < left, other=0.0),
            total,
            input_precision="ieee",
        )
        x += BK * ak
        y += BK * bk
    n_out = column * BN + tl.arange(0, BN)
    m_out = row * BM + tl.arange(0, BM)
    if bias is not None:
        total += tl.load(bias + n_out, mask=n_out < N, other=0.0)[None, :]
    if ACTIVATION:
        total = leaky_relu(total)
    mask = (m_out[:, None] < M) & (n_out[None, :] < N)
    tl.store(c + cm * m_out[:, None] + cn * n_out[None, :], total.to(c.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("dtype", HALF_OR_SINGLE)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (100, 50, 70), (33, 129, 16)])
@pytest.mark.parametrize("fused", [False, True])
def test_matmul_with_grouped_programs(device, m, n, k, dtype, fused):
    a, b, bias = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype), torch.randn(n)
    out = torch.empty(m, n, dtype=dtype, device=device)
    grid = (triton.cdiv(m, 32) * triton.cdiv(n, 32),)
    on_bias = bias.to(device) if fused else None
    matmul_kernel[grid](
        a.to(device), b.to(device), on_bias, out, m, n, k, k, 1, n, 1, n, 1,
        BM=32, BN=32, BK=16, GROUP=3, ACTIVATION=fused,
    )  # fmt: skip
    expected = a.double() @ b.double()
    expected = F.leaky_relu(expected + bias.double(), 0.01) if fused else expected
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(out.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance * 2)


@triton.jit
def attention_kernel(
    q, k, v, out, scale, queries, keys,
    CAUSAL: tl.constexpr, HEAD: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    i = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, HEAD)
    query = tl.load(q + head * queries * HEAD + i[:, None] * HEAD + d[None, :], mask=i[:, None] < queries, other=0.0)
    largest = tl.full((BQ,), float("-inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    result = tl.zeros((BQ, HEAD), tl.float32)
    end = tl.minimum(keys, (tl.program_id(0) + 1) * BQ) if CAUSAL else keys
    for start in range(0, end, BK):
        j = start + tl.arange(0, BK)
        inside = j < keys
        key = tl.load(k + head * keys * HEAD + j[None, :] * HEAD + d[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(query, key, input_precision="ieee") * scale
        allowed = inside[None, :] & (i[:, None] >= j[None, :]) if CAUSAL else inside[None, :]
        scores = tl.where(allowed, scores, float("-inf"))
        higher = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(largest - higher)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(v + head * keys * HEAD + j[:, None] * HEAD + d[None, :], mask=inside[:, None], other=0.0)
        result = tl.dot(weights.to(value.dtype), value, result * shrink[:, None], input_precision="ieee")
        largest = higher
    result = result / total[:, None]
    where = out + head * queries * HEAD + i[:, None] * HEAD + d[None, :]
    tl.store(where, result.to(out.dtype.element_ty), mask=i[:, None] < queries)


@pytest.mark.parametrize("dtype", HALF_OR_SINGLE)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [16, 50, 64])
def test_flash_attention_forward(device, length, causal, dtype):
    """Online softmax: tiles of keys, never the whole matrix of scores."""
    q, k, v = (torch.randn(2, length, 32).to(dtype) for _ in range(3))
    out = torch.empty_like(q, device=device)
    attention_kernel[(triton.cdiv(length, 16), 2)](
        q.to(device), k.to(device), v.to(device), out, 1 / math.sqrt(32), length, length,
        CAUSAL=causal, HEAD=32, BQ=16, BK=16,
    )  # fmt: skip
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(out.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance)


@triton.jit
def rotary_kernel(x, cosines, sines, out, length, HALF: tl.constexpr, BLOCK: tl.constexpr):
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, HALF)[None, :]
    mask = position < length
    base = position * (2 * HALF) + c
    first, second = tl.load(x + base, mask=mask), tl.load(x + base + HALF, mask=mask)
    cosine, sine = tl.load(cosines + position * HALF + c, mask=mask), tl.load(sines + position * HALF + c, mask=mask)
    tl.store(out + base, first * cosine - second * sine, mask=mask)
    tl.store(out + base + HALF, second * cosine + first * sine, mask=mask)


@triton.jit
def interleaved_rotary_kernel(x, cosines, sines, out, length, HALF: tl.constexpr, BLOCK: tl.constexpr):
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    mask = position < length
    whole = position * (2 * HALF) + tl.arange(0, 2 * HALF)[None, :]
    half = position * HALF + tl.arange(0, HALF)[None, :]
    even, odd = tl.split(tl.reshape(tl.load(x + whole, mask=mask), (BLOCK, HALF, 2)))
    cosine, sine = tl.load(cosines + half, mask=mask), tl.load(sines + half, mask=mask)
    rotated = tl.interleave(even * cosine - odd * sine, odd * cosine + even * sine)
    tl.store(out + whole, rotated, mask=mask)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("length", [5, 16, 37])
def test_rotary_embedding(device, length, interleaved):
    x = torch.randn(length, 32)
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(16) / 16)
    cosine, sine = angle.cos(), angle.sin()
    out = torch.empty(length, 32, device=device)
    kernel = interleaved_rotary_kernel if interleaved else rotary_kernel
    kernel[(triton.cdiv(length, 16),)](x.to(device), cosine.to(device), sine.to(device), out, length, HALF=16, BLOCK=16)
    first, second = (x[:, ::2], x[:, 1::2]) if interleaved else (x[:, :16], x[:, 16:])
    parts = first * cosine - second * sine, second * cosine + first * sine
    expected = torch.stack(parts, -1).reshape(length, 32) if interleaved else torch.cat(parts, 1)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-6, atol=1e-6)


@triton.jit
def transpose_kernel(source, target, rows, columns, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns))
    tl.store(target + c[:, None] * rows + r[None, :], tl.trans(x), mask=(c[:, None] < columns) & (r[None, :] < rows))


@pytest.mark.parametrize(("rows", "columns"), [(1, 40), (32, 32), (45, 70)])
def test_tiled_transpose(device, rows, columns):
    x, out = torch.randn(rows, columns), torch.empty(columns, rows, device=device)
    transpose_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x.to(device), out, rows, columns, BLOCK=32)
    assert_same(out, x.T.contiguous())

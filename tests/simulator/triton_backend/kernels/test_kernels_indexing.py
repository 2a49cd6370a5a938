"""Whole kernels that people write: embeddings, scatter, top-k, histogram, fused optimizer steps, gated activations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from .support import assert_same, dtypes


@triton.jit
def embedding_kernel(weight, tokens, out, count, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    token = tl.load(tokens + row, mask=row < count, other=0)
    mask = (row[:, None] < count) & (c[None, :] < WIDTH)
    value = tl.load(weight + token[:, None] * WIDTH + c[None, :], mask=mask)
    tl.store(out + row[:, None] * WIDTH + c[None, :], value, mask=mask)


@triton.jit
def embedding_backward_kernel(grad, tokens, out, count, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    token = tl.load(tokens + row, mask=row < count, other=0)
    mask = (row[:, None] < count) & (c[None, :] < WIDTH)
    value = tl.load(grad + row[:, None] * WIDTH + c[None, :], mask=mask)
    tl.atomic_add(out + token[:, None] * WIDTH + c[None, :], value, mask=mask)


@pytest.mark.parametrize("width", [8, 50, 64])
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.bfloat16))
def test_embedding_forward_and_backward(device, width, dtype):
    """Few words and many tokens: the same rows are added to again and again."""
    weight, tokens = torch.randn(13, width).to(dtype), torch.randint(0, 13, (100,))
    grad = torch.randint(-2, 3, (100, width)).to(dtype)
    out = torch.empty(100, width, dtype=dtype, device=device)
    grad_weight = torch.zeros(13, width, dtype=dtype, device=device)
    sizes = {"WIDTH": width, "ROWS": 8, "BLOCK": triton.next_power_of_2(width)}
    embedding_kernel[(13,)](weight.to(device), tokens.to(device), out, 100, **sizes)
    embedding_backward_kernel[(13,)](grad.to(device), tokens.to(device), grad_weight, 100, **sizes)
    assert_same(out, weight[tokens])
    expected = torch.zeros(13, width, dtype=torch.float64).index_add_(0, tokens, grad.double())
    assert_same(grad_weight, expected.to(dtype), signed_zero=False)


@triton.jit
def scatter_kernel(x, index, out, count, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    place = tl.load(index + offsets, mask=mask, other=0)
    place = tl.where(place < 0, place + size, place)
    tl.store(out + place, tl.load(x + offsets, mask=mask), mask=mask)


def test_scatter_with_negative_indices(device):
    x, index = torch.randn(50), torch.randperm(80)[:50]
    wrapped = torch.where(torch.arange(50) % 2 == 0, index, index - 80)
    out = torch.zeros(80, device=device)
    scatter_kernel[(4,)](x.to(device), wrapped.to(device), out, 50, 80, BLOCK=16)
    assert_same(out, torch.zeros(80).scatter(0, index, x))


@triton.jit
def top_k_kernel(x, values, places, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    """K rounds of argmax: the routing step of a mixture of experts."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    rest = tl.load(x + row * columns + c, mask=c < columns, other=float("-inf"))
    for k in range(K):
        best, place = tl.max(rest, 0, return_indices=True)
        tl.store(values + row * K + k, best)
        tl.store(places + row * K + k, place)
        rest = tl.where(c == place, float("-inf"), rest)


@pytest.mark.parametrize(("columns", "k"), [(8, 2), (60, 6), (128, 1)])
def test_top_k_by_repeated_argmax(device, columns, k):
    x = torch.randn(10, columns)
    values, places = torch.empty(10, k, device=device), torch.empty(10, k, dtype=torch.int32, device=device)
    top_k_kernel[(10,)](x.to(device), values, places, columns, K=k, BLOCK=triton.next_power_of_2(columns))
    expected = x.topk(k, 1)
    assert_same(values, expected.values)
    assert_same(places, expected.indices.to(torch.int32))


@triton.jit
def histogram_kernel(x, out, count, low, width, BINS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BINS,), tl.int32)
    for start in range(0, count, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + offsets, mask=offsets < count, other=low)
        place = tl.minimum(((value - low) / width).to(tl.int32), BINS - 1)
        total += tl.histogram(place, BINS)
    spare = tl.cdiv(count, BLOCK) * BLOCK - count
    bins = tl.arange(0, BINS)
    tl.store(out + bins, total - tl.where(bins == 0, spare, 0))


def test_histogram_of_floats(device):
    x = torch.rand(700)
    out = torch.empty(16, dtype=torch.int32, device=device)
    histogram_kernel[(1,)](x.to(device), out, 700, 0.0, 1 / 16, BINS=16, BLOCK=128)
    assert_same(out, torch.histc(x, 16, 0, 1).to(torch.int32))


@triton.jit
def adamw_kernel(
    parameter, grad, first, second, count, rate, beta1, beta2, eps, decay, correction1, correction2, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    g = tl.load(grad + offsets, mask=mask)
    p = tl.load(parameter + offsets, mask=mask) * (1 - rate * decay)
    m = beta1 * tl.load(first + offsets, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(second + offsets, mask=mask) + (1 - beta2) * g * g
    p -= rate * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(parameter + offsets, p, mask=mask)
    tl.store(first + offsets, m, mask=mask)
    tl.store(second + offsets, v, mask=mask)


def test_fused_adamw_step(device):
    """Five steps in place on three tensors, against torch's optimizer."""
    reference = torch.nn.Parameter(torch.randn(1000))
    optimizer = torch.optim.AdamW([reference], lr=1e-2, weight_decay=0.1)
    parameter = reference.detach().clone().to(device)
    first, second = torch.zeros(1000, device=device), torch.zeros(1000, device=device)
    for step in range(1, 6):
        reference.grad = torch.randn(1000)
        grad = reference.grad.to(device)
        corrections = (1 - 0.9**step, 1 - 0.999**step)
        adamw_kernel[(4,)](parameter, grad, first, second, 1000, 1e-2, 0.9, 0.999, 1e-8, 0.1, *corrections, BLOCK=256)
        optimizer.step()
    torch.testing.assert_close(parameter.cpu(), reference.detach(), rtol=1e-5, atol=1e-6)


@triton.jit
def swiglu_kernel(gate, up, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    g = tl.load(gate + offsets, mask=mask).to(tl.float32)
    u = tl.load(up + offsets, mask=mask).to(tl.float32)
    tl.store(out + offsets, g * tl.sigmoid(g) * u, mask=mask)


@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.bfloat16))
def test_swiglu(device, dtype):
    gate, up = torch.randn(777).to(dtype), torch.randn(777).to(dtype)
    out = torch.empty(777, dtype=dtype, device=device)
    swiglu_kernel[(triton.cdiv(777, 128),)](gate.to(device), up.to(device), out, 777, BLOCK=128)
    expected = F.silu(gate.double()) * up.double()
    tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(out.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance)


@triton.jit
def max_pool_kernel(x, out, height, width, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    columns = width // WINDOW
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in tl.static_range(WINDOW):
        for j in tl.static_range(WINDOW):
            place = (row * WINDOW + i) * width + c * WINDOW + j
            largest = tl.maximum(largest, tl.load(x + place, mask=c < columns, other=float("-inf")))
    tl.store(out + row * columns + c, largest, mask=c < columns)


@pytest.mark.parametrize("window", [2, 3])
def test_max_pooling_reads_with_a_step(device, window):
    x = torch.randn(24, 30)
    out = torch.empty(24 // window, 30 // window, device=device)
    max_pool_kernel[(24 // window,)](x.to(device), out, 24, 30, WINDOW=window, BLOCK=16)
    assert_same(out, F.max_pool2d(x[None], window)[0])

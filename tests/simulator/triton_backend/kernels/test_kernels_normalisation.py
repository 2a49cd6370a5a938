"""Whole kernels that people write: softmax, layer norm forward and backward, cross entropy, dropout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from .support import assert_same, dtypes

TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
HALF_OR_SINGLE = dtypes(torch.float32, torch.float16, torch.bfloat16)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(actual.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance)


@triton.jit
def softmax_kernel(x, out, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        value = tl.load(x + row * x_stride + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        numerator = tl.exp(value - tl.max(value, 0))
        tl.store(out + row * out_stride + offsets, numerator / tl.sum(numerator, 0), mask=mask)


@pytest.mark.parametrize("dtype", HALF_OR_SINGLE)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 33), (40, 128), (5, 1000)])
def test_softmax(device, rows, columns, dtype):
    x = (torch.randn(rows, columns) * 5).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype, device=device)
    block = triton.next_power_of_2(columns)
    softmax_kernel[(min(rows, 4),)](x.to(device), out, columns, columns, rows, columns, BLOCK=block)
    assert_close(out, torch.softmax(x.double(), 1), dtype)


@triton.jit
def layer_norm_kernel(x, out, weight, bias, means, deviations, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + c, mask=c < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + c, mask=c < columns, other=0.0).to(tl.float32)
        centred = tl.where(c < columns, value - mean, 0.0)
        total += centred * centred
    inverse = 1 / tl.sqrt(tl.sum(total, 0) / columns + eps)
    tl.store(means + row, mean)
    tl.store(deviations + row, inverse)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = c < columns
        value = tl.load(x + row * columns + c, mask=mask, other=0.0).to(tl.float32)
        scaled = (value - mean) * inverse * tl.load(weight + c, mask=mask) + tl.load(bias + c, mask=mask)
        tl.store(out + row * columns + c, scaled, mask=mask)


@triton.jit
def layer_norm_backward_kernel(
    x, grad, weight, means, inverses, grad_x, grad_weight, grad_bias, columns, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < columns
    value = tl.load(x + row * columns + c, mask=mask, other=0.0).to(tl.float32)
    upstream = tl.load(grad + row * columns + c, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + c, mask=mask, other=0.0).to(tl.float32)
    mean, inverse = tl.load(means + row), tl.load(inverses + row)
    normal = tl.where(mask, (value - mean) * inverse, 0.0)
    scaled = w * upstream
    first = tl.sum(normal * scaled, 0) / columns
    second = tl.sum(scaled, 0) / columns
    tl.store(grad_x + row * columns + c, (scaled - (normal * first + second)) * inverse, mask=mask)
    tl.atomic_add(grad_weight + c, upstream * normal, mask=mask)
    tl.atomic_add(grad_bias + c, upstream, mask=mask)


@pytest.mark.parametrize("dtype", HALF_OR_SINGLE)
@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (20, 100), (33, 300)])
def test_layer_norm_forward_and_backward(device, rows, columns, dtype):
    x = (torch.randn(rows, columns) * 2 + 1).to(dtype)
    weight, bias, grad = torch.rand(columns) + 0.5, torch.randn(columns), torch.randn(rows, columns).to(dtype)
    on_x, on_weight = x.to(device), weight.to(device)
    out, grad_x = torch.empty_like(on_x), torch.empty_like(on_x)
    means, inverses = torch.empty(rows, device=device), torch.empty(rows, device=device)
    layer_norm_kernel[(rows,)](on_x, out, on_weight, bias.to(device), means, inverses, columns, 1e-5, BLOCK=128)
    grad_weight, grad_bias = torch.zeros(columns, device=device), torch.zeros(columns, device=device)
    layer_norm_backward_kernel[(rows,)](
        on_x, grad.to(device), on_weight, means, inverses, grad_x, grad_weight, grad_bias, columns,
        BLOCK=triton.next_power_of_2(columns),
    )  # fmt: skip

    reference = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    expected = F.layer_norm(reference[0], (columns,), *reference[1:])
    expected.backward(grad.double())
    assert_close(out, expected.detach(), dtype)
    assert_close(grad_x, reference[0].grad, dtype)
    torch.testing.assert_close(grad_weight.cpu(), reference[1].grad.float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(grad_bias.cpu(), reference[2].grad.float(), rtol=1e-5, atol=1e-4)


@triton.jit
def cross_entropy_kernel(logits, labels, losses, grads, columns, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    largest = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * columns + c, mask=c < columns, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - higher) + tl.sum(tl.exp(x - higher), 0)
        largest = higher
    chosen = tl.load(logits + row * columns + label, mask=label != ignore, other=0.0).to(tl.float32)
    tl.store(losses + row, tl.where(label != ignore, largest + tl.log(total) - chosen, 0.0))
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * columns + c, mask=c < columns, other=float("-inf")).to(tl.float32)
        probability = tl.exp(x - largest) / total
        grad = tl.where(label != ignore, probability - tl.where(c == label, 1.0, 0.0), 0.0)
        tl.store(grads + row * columns + c, grad, mask=c < columns)


@pytest.mark.parametrize("dtype", HALF_OR_SINGLE)
@pytest.mark.parametrize("columns", [10, 128, 1000])
def test_cross_entropy_with_gradient(device, columns, dtype):
    logits, labels = (torch.randn(9, columns) * 3).to(dtype), torch.randint(0, columns, (9,))
    labels[4] = -100
    losses, grads = torch.empty(9, device=device), torch.empty(9, columns, dtype=dtype, device=device)
    cross_entropy_kernel[(9,)](logits.to(device), labels.to(device), losses, grads, columns, -100, BLOCK=128)
    reference = logits.double().requires_grad_()
    expected = F.cross_entropy(reference, labels, reduction="none", ignore_index=-100)
    expected.sum().backward()
    torch.testing.assert_close(losses.cpu(), expected.detach().float(), rtol=1e-5, atol=1e-5)
    assert_close(grads, reference.grad, dtype)


@triton.jit
def dropout_kernel(x, out, count, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    keep = tl.rand(seed, offsets) > p
    value = tl.load(x + offsets, mask=mask)
    tl.store(out + offsets, tl.where(keep, value / (1 - p), 0.0), mask=mask)


def dropout(device: str, x: torch.Tensor, p: float, seed: int, block: int) -> torch.Tensor:
    out = torch.empty(x.shape, device=device)
    dropout_kernel[(triton.cdiv(x.numel(), block),)](x.to(device), out, x.numel(), p, seed, BLOCK=block)
    return out.cpu()


def test_dropout_is_reproducible_under_a_seed(device):
    x = torch.ones(10_000)
    first, second = dropout(device, x, 0.25, 1, 256), dropout(device, x, 0.25, 1, 1024)
    assert_same(first, second)
    assert not torch.equal(first, dropout(device, x, 0.25, 2, 256))
    assert abs((first == 0).float().mean() - 0.25) < 0.02
    assert set(first.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}

"""Attention compiled for `npu`, against the same in float64 on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

# Of the largest element: what halves lose in a product is rounded once more in the next.
TOLERANCE = {torch.float32: 5e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}

Tensors = Sequence[torch.Tensor]
Function = Callable[..., torch.Tensor]


def heads(
    batch: int, count: int, rows: int, columns: int, dim: int, dtype: torch.dtype = torch.float32, shared: int = 0
) -> list[torch.Tensor]:
    """Queries, keys and values; `shared` heads of keys and values, or as many as queries have."""
    torch.manual_seed(0)
    return [
        torch.randn(batch, shared or count if place else count, columns if place else rows, dim, dtype=dtype)
        for place in range(3)
    ]


def with_gradients(function: Function, tensors: Tensors, *others: Any) -> list[torch.Tensor]:
    """The result, and the gradients of a weighted sum of it by all `tensors`, in float64 on the CPU."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    result = function(*leaves, *others)
    weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).reshape(result.shape)
    gradients = torch.autograd.grad((result * weights.to(result)).sum(), leaves)
    return [each.detach().cpu().double() for each in (result, *gradients)]


def assert_close(actual: Tensors, expected: Tensors, dtype: torch.dtype) -> None:
    """Whether all tensors are equal but for roundings of `dtype`."""
    for got, wanted in zip(actual, expected, strict=True):
        largest = float(wanted.nan_to_num(0, 0, 0).abs().max())
        atol = TOLERANCE[dtype] * max(1.0, largest)
        torch.testing.assert_close(got.double(), wanted.double(), rtol=0, atol=atol, equal_nan=True)


def on_npu(values: Sequence[Any]) -> list[Any]:
    """`values` with tensors on `npu`."""
    return [value.npu() if isinstance(value, torch.Tensor) else value for value in values]


def check(function: Function, tensors: Tensors, *others: Any, reference: Function | None = None) -> None:
    """Compiles `function`, and compares its results and gradients with those of `reference`, or of itself."""
    wide = [each.double() if isinstance(each, torch.Tensor) and each.is_floating_point() else each for each in others]
    expected = with_gradients(reference or function, [tensor.double() for tensor in tensors], *wide)
    actual = with_gradients(torch.compile(function, fullgraph=True), on_npu(tensors), *on_npu(others))
    assert_close(actual, expected, tensors[0].dtype)


def kernels(function: Function, *inputs: Any) -> tuple[torch.Tensor, list[str]]:
    """The result of the compiled function, and the text of its kernels."""
    with torch.no_grad():
        result, (module,) = run_and_get_code(torch.compile(function, fullgraph=True), *on_npu(inputs))
    return result.cpu(), re.findall(r"@triton\.jit\n(.*?)\n'''", module, re.DOTALL)


def attention(**options: Any) -> Function:
    """`scaled_dot_product_attention` with these options; a mask is the fourth tensor."""
    return lambda *tensors: F.scaled_dot_product_attention(*tensors, **options)

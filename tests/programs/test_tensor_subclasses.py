"""Subclasses of tensors that PyTorch's compiler takes apart or traces through."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from tests.compile.helpers import assert_equal


def _parts(value: TwoTensor) -> list[torch.Tensor]:
    return [value.a.detach().cpu(), value.b.detach().cpu()]


def _both(function: Any, value: TwoTensor) -> list[torch.Tensor]:
    return [function(value.a.cpu()), function(value.b.cpu())]


def _two(*shape: int) -> TwoTensor:
    return TwoTensor(torch.randn(shape).to("npu"), torch.randn(shape).to("npu"))


def test_a_wrapper_of_two_tensors() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.sin() @ x.t(), -1).sum(0)

    value = _two(20, 30)
    result = torch.compile(function, fullgraph=True)(value)
    assert isinstance(result, TwoTensor)
    assert_equal(_parts(result), _both(function, value))


@pytest.mark.slow
def test_a_wrapper_with_gradients_and_a_dynamic_size() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w)

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for rows in (7, 13, 20):
        value = _two(rows, 5).requires_grad_()
        w = torch.randn(5, 4)
        compiled(value, w.to("npu")).sum().backward()
        for got, part in zip((value.grad.a, value.grad.b), (value.a, value.b)):
            leaf = part.detach().cpu().requires_grad_()
            function(leaf, w).sum().backward()
            assert_equal(got, leaf.grad)


def test_a_parameter_that_is_a_wrapper() -> None:
    layer = nn.Linear(6, 4, bias=False).to("npu")
    weight = _two(4, 6)
    layer.weight = nn.Parameter(weight)
    x = torch.randn(3, 6)
    result = torch.compile(layer, fullgraph=True)(x.to("npu"))
    assert isinstance(result, TwoTensor)
    assert_equal(_parts(result), [x @ part.detach().cpu().t() for part in (weight.a, weight.b)])


class Doubling(torch.Tensor):
    """Whose softmax is twice what it would be."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 2 if function is torch.softmax else result


def test_a_class_that_changes_functions() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * y + 1

    x, y = torch.randn(5, 6), torch.randn(5, 6)
    special = x.to("npu").as_subclass(Doubling)
    result = torch.compile(function, fullgraph=True)(special, y.to("npu"))
    assert_equal(result.as_subclass(torch.Tensor), torch.softmax(x, -1) * 2 * y + 1)


class Named(nn.Parameter):
    """A parameter that knows what it is for."""

    purpose = "bias"


def test_a_subclass_of_parameter() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = Named(torch.randn(6).to("npu"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.by if self.by.purpose == "bias" else x

    module = Shift()
    x = torch.randn(3, 6)
    compiled = torch.compile(module, fullgraph=True)
    result = compiled(x.to("npu"))
    assert_equal(result, x + module.by.detach().cpu())
    result.sum().backward()
    assert_equal(module.by.grad, torch.full((6,), 3.0))

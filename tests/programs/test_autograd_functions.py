"""Functions with a gradient that the user wrote (torch.autograd.Function), inside compiled code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd.function import once_differentiable

from tests.compile.helpers import check, counted


class Cube(torch.autograd.Function):
    """Saves an input and a result; its gradient is scaled, so that autograd's own would be seen."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        y = x**3
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, y = ctx.saved_tensors
        return grad * ctx.scale * (3 * x**2 + 0 * y), None


class Sorted(torch.autograd.Function):
    """Two results, of which one has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, order = x.sort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return values, order

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        (order,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter_(0, order, grad)


class Straight(torch.autograd.Function):
    """A result that is rounded, with the gradient of the identity; setup_context apart from forward."""

    @staticmethod
    def forward(x: torch.Tensor, levels: int) -> torch.Tensor:
        return (x * levels).round() / levels

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


class Scaled(torch.autograd.Function):
    """Changes its input, and says so."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        x.mul_(4)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 4


class Bias(torch.autograd.Function):
    """Computes only the gradients that are asked for."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        return (
            grad * 2 if ctx.needs_input_grad[0] else None,
            grad.sum(0) if ctx.needs_input_grad[1] else None,
        )


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def test_saved_tensors() -> None:
    check(lambda x: Cube.apply(x.sin(), 5.0) * 2, _leaf(6, 7), backward=True)


def test_a_result_without_a_gradient() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, order = Sorted.apply(x * 2)
        assert not order.requires_grad
        return values.cumsum(0), order + 1

    check(fn, _leaf(40), backward=True)


def test_a_gradient_that_replaces_that_of_rounding() -> None:
    check(lambda x: Straight.apply(x.tanh(), 8) * x, _leaf(30), backward=True)


def test_an_input_that_is_changed() -> None:
    check(lambda x: Scaled.apply(x * 1).sum(0), _leaf(5, 3), backward=True)


@pytest.mark.parametrize("needed", [(True, True), (False, True), (True, False)], ids=str)
def test_only_the_gradients_that_are_needed(needed: tuple[bool, bool]) -> None:
    x, bias = (torch.randn(shape).requires_grad_(need) for shape, need in zip(((4, 5), (5,)), needed))
    check(lambda x, bias: Bias.apply(x, bias).cos(), x, bias, backward=True)


def test_without_gradients() -> None:
    check(lambda x: Cube.apply(x, 1.0) + Straight.apply(x, 4), torch.randn(9))


@pytest.mark.slow
def test_one_inside_of_another() -> None:
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return Straight.apply(x.exp(), 2)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return Cube.apply(x, 1.0) * grad

    check(lambda x: Outer.apply(x) * 3, _leaf(12), backward=True)


def test_dynamic_shapes() -> None:
    compiled, counter = counted(lambda x: Cube.apply(x, 2.0).sum(0), dynamic=True)
    for rows in (3, 8, 20):
        check(lambda x: Cube.apply(x, 2.0).sum(0), _leaf(rows, 4), compiled=compiled, backward=True)
    assert counter.frame_count == 1


def test_a_backward_that_cannot_be_traced_breaks_the_graph() -> None:
    class Printed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return grad * 7

    check(lambda x: Printed.apply(x.sin()) + 1, _leaf(6), backward=True, fullgraph=False)


@pytest.mark.slow
def test_an_operator_is_called_in_forward_and_backward() -> None:
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            weights = torch.softmax(q @ k.t(), -1)
            ctx.save_for_backward(q, k, weights)
            return weights

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            q, k, weights = ctx.saved_tensors
            inner = weights * (grad - (grad * weights).sum(-1, keepdim=True))
            return inner @ k, inner.t() @ q

    check(lambda q, k: Attention.apply(q, k) ** 2, _leaf(6, 8), _leaf(5, 8), backward=True)

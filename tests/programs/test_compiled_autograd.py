"""Compiled autograd: the backward pass as one graph, with the numbers of eager's formulas as tensors of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

from tests.compile.helpers import assert_equal


def compiled_backward(device: str) -> AbstractContextManager[None]:
    return torch._dynamo.compiled_autograd._enable(torch.compile()) if device == "npu" else nullcontext()


def gradients(loss: Callable[..., torch.Tensor], *leaves: torch.Tensor) -> list[torch.Tensor | None]:
    """Those of `loss`, whose backward pass is compiled where the leaves are on npu."""
    copies = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    with compiled_backward(leaves[0].device.type):
        loss(*copies).backward()
    return [copy.grad for copy in copies]


def losses() -> list[Callable[..., torch.Tensor]]:
    def mixture(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x * 3 + 1) / 7 - y.sin() * 2.5).pow(2).sum() + (x.relu() - 4).mean() * 0.5

    def of_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2 - y * (-3)).abs().sum()

    def with_a_scalar_of_the_cpu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * torch.tensor(1.5) + y.double() * torch.tensor(2.0, dtype=torch.float64)).sum()

    return [mixture, of_integers, with_a_scalar_of_the_cpu]


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.__name__)
def test_gradients_are_eagers(loss: Callable[..., torch.Tensor]) -> None:
    x, y = torch.randn(6), torch.randn(6)
    assert_equal(gradients(loss, x.to("npu"), y.to("npu")), gradients(loss, x, y))


def test_a_training_step_with_a_compiled_forward_pass() -> None:
    def trained(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        forward = torch.compile(model) if device == "npu" else model
        x = torch.linspace(-1, 1, 32).reshape(4, 8).to(device)
        with compiled_backward(device):
            for _ in range(2):
                optimizer.zero_grad()
                (forward(x).square().mean() * 3).backward()
                optimizer.step()
        return list(model.parameters())

    assert_equal([p.detach() for p in trained("npu")], [p.detach() for p in trained("cpu")])

"""Numbers in tensors of the CPU stay there for the backward pass, also where graphs are captured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


def shown(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x @ weight) * scale


def on_both(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = x @ weight
    return y * scale + (y.sum().cpu() * scale).npu()


def moved_by_the_user(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The number as a result: one of npu."""
    return (x @ weight) * scale.npu() * scale, scale.npu()


@pytest.mark.parametrize("function", [shown, on_both, moved_by_the_user])
def test_it_is_saved_where_it_was(function: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(4, 4, generator=generator).npu() for _ in range(2))
    weight, scale = weight.requires_grad_(), torch.tensor(1.5, requires_grad=True)
    compiled = torch.compile(function, mode="reduce-overhead")
    for _ in range(3):
        results, expected = ([*_listed(each(x, weight, scale))] for each in (compiled, function))
        for result, reference in zip(results, expected, strict=True):
            assert result.device == reference.device
            torch.testing.assert_close(result, reference)
        saved = results[0].grad_fn.saved_tensors
        assert function is moved_by_the_user or any(tensor is scale for tensor in saved)
        gradients = torch.autograd.grad(results[0].sum(), (weight, scale))
        torch.testing.assert_close(gradients, torch.autograd.grad(expected[0].sum(), (weight, scale)))


def _listed(results: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)

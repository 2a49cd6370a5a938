"""Activation checkpointing in compiled code: what is saved, what is computed again, and with which random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import inductor_npu
import inductor_npu.config
from inductor_npu.diagnostics.explanation.data import Pass
from tests.compile.helpers import check

WIDTH = 24


def _block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).sin() @ w.t()


def _leaves() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, WIDTH, requires_grad=True), torch.randn(WIDTH, WIDTH, requires_grad=True)


def _policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    is_product = operator is torch.ops.aten.mm.default
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.MUST_RECOMPUTE


def _products_of_the_backward(function: Any) -> int:
    inputs = [leaf.detach().to("npu").requires_grad_() for leaf in _leaves()]
    with inductor_npu.config.patch(templates="none"):  # each is a call: kernels compute two that share an operand
        explained = inductor_npu.explain(torch.compile(function, fullgraph=True), *inputs, backward=True)
    (backward,) = [graph for graph in explained.graphs if graph.pass_ is Pass.BACKWARD]
    return sum(call.calls for call in backward.library_calls if call.operator.startswith("extern_kernels."))


@pytest.mark.slow
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_a_checkpoint_holds_is_computed_again(use_reentrant: bool) -> None:
    def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(_block, x, w, use_reentrant=use_reentrant)

    check(checkpointed, *_leaves(), backward=True)
    torch._dynamo.reset()
    assert _products_of_the_backward(checkpointed) == 5, "four of gradients, and x @ w again"


@pytest.mark.slow
def test_a_policy_chooses_what_is_saved() -> None:
    def contexts() -> Any:
        return create_selective_checkpoint_contexts(_policy)

    def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(_block, x, w, use_reentrant=False, context_fn=contexts)

    check(checkpointed, *_leaves(), backward=True)
    torch._dynamo.reset()
    assert _products_of_the_backward(checkpointed) == 4, "those of gradients only"


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_dropout_is_drawn_again_with_the_same_numbers(use_reentrant: bool) -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.exp(), 0.5).sin()

    @torch.compile(fullgraph=True)
    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(dropped, x, use_reentrant=use_reentrant)

    x = torch.rand(64, 64, device="npu").requires_grad_()
    y = checkpointed(x)
    y.sum().backward()
    kept = (y != 0).float() * 2
    assert 0.4 < kept.mean().item() / 2 < 0.6
    torch.testing.assert_close(x.grad, (x.exp() * kept).cos() * x.exp() * kept)


def _masked_by_dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x.exp(), 0.5).sin()


def _masked_by_uniform_numbers(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() * ((torch.rand_like(x) > 0.5).float() * 2)).sin()


def _masked_by_bernoulli(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() * torch.bernoulli(torch.full_like(x, 0.5)) * 2).sin()


def _exponentials_only() -> Any:
    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = operator is torch.ops.aten.exp.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.MUST_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


@pytest.mark.parametrize("masked", [_masked_by_dropout, _masked_by_uniform_numbers, _masked_by_bernoulli])
@pytest.mark.parametrize("options", [{}, {"context_fn": _exponentials_only}], ids=["whole", "selective"])
def test_random_numbers_of_eager_are_drawn_again(masked: Any, options: dict[str, Any]) -> None:
    @torch.compile(fullgraph=True)
    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(masked, x, use_reentrant=False, **options)

    with torch._inductor.config.patch(fallback_random=True):
        for _ in range(2):
            x = torch.rand(32, 32, device="npu").requires_grad_()
            y = checkpointed(x)
            after = torch.npu.get_rng_state()
            y.sum().backward()
            kept = (y != 0).float() * 2
            assert 0.35 < kept.mean().item() / 2 < 0.65
            torch.testing.assert_close(x.grad, (x.exp() * kept).cos() * x.exp() * kept)
            assert torch.equal(torch.npu.get_rng_state(), after), "the backward pass leaves the generator alone"


def test_a_checkpoint_inside_of_a_checkpoint_and_outside_of_the_compiled_code() -> None:
    def nested(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        inner = torch.compile(lambda x: checkpoint(_block, x, w, use_reentrant=False) * 2)
        return checkpoint(inner, x, use_reentrant=False)

    x, w = _leaves()
    on_npu = [leaf.detach().to("npu").requires_grad_() for leaf in (x, w)]
    nested(*on_npu).sum().backward()
    (_block(x, w) * 2).sum().backward()
    for got, wanted in zip(on_npu, (x, w)):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-4)

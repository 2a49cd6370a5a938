"""A mask for several layers of attention: stored once, whether it lies expanded in memory or is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import inductor_npu.config as config
from tests.compile.helpers import assert_equal, check, to_npu


@pytest.fixture(autouse=True)
def _library() -> Iterator[None]:
    """Kernels of attention make masks themselves."""
    with config.patch(templates="none"):
        yield


X = torch.randn(2, 4, 32, 16)
TOKENS = (torch.arange(64).reshape(2, 32) % 5 > 0).float()


def expanded(tokens: torch.Tensor) -> torch.Tensor:
    return ((1 - tokens) * -10.0)[:, None, None, :].expand(2, 1, 32, 32)


def computed(tokens: torch.Tensor) -> torch.Tensor:
    return torch.where((tokens > 0)[:, None, None, :].expand(2, 1, 32, 32), 0.0, -5.0)


def turned(tokens: torch.Tensor) -> torch.Tensor:
    return (tokens[:, None, None, :] - tokens[:, None, :, None]).mT


def layers(count: int, mask_of: Callable[[torch.Tensor], torch.Tensor] = expanded) -> Callable[..., torch.Tensor]:
    def network(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        mask = mask_of(tokens)
        for _ in range(count):
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return x

    return network


def stores(function: Callable[..., torch.Tensor], passes: str = "all") -> int:
    """How many stores all kernels have; the result is compared with eager's."""
    torch._dynamo.reset()
    with config.patch(graph_passes=passes):
        result, (module,) = run_and_get_code(torch.compile(function), *map(to_npu, (X, TOKENS)))
    assert_equal(result, function(X, TOKENS))
    return module.count("tl.store(")


@pytest.mark.parametrize("mask_of", [expanded, computed, turned])
def test_one_more_layer_stores_no_further_mask(mask_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert stores(layers(2, mask_of)) == stores(layers(5, mask_of)) == 1
    assert stores(layers(5, mask_of), "none") > 1


def test_a_mask_of_one_call_is_left_to_inductor() -> None:
    assert stores(layers(1)) == stores(layers(1), "none")


def test_contiguous_copies_of_one_mask_are_one() -> None:
    """T5 makes one for each layer."""

    def network(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        mask = turned(tokens)
        for _ in range(4):
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask.contiguous())
        return x

    assert stores(network) == 1


def test_different_masks_stay_different() -> None:
    def network(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        masks = [((1 - tokens) * scale)[:, None, None, :].expand(2, 1, 32, 32) for scale in (-10.0, -1.0)]
        for mask in masks * 2:
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return x

    assert stores(network) == 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic: bool) -> None:
    check(layers(3), X.clone().requires_grad_(), TOKENS, backward=True, dynamic=dynamic)


@pytest.mark.slow
def test_a_mask_with_a_gradient() -> None:
    """Sums that cancel: in float32 eager's own are a thousand units of the last place off."""
    check(layers(3), X.double().requires_grad_(), TOKENS.double().requires_grad_(), backward=True)


def test_a_mask_that_is_changed_afterwards() -> None:
    def network(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        x = layers(2)(x, tokens)
        tokens.mul_(0)
        return layers(2)(x, tokens)

    check(network, X, TOKENS.clone())

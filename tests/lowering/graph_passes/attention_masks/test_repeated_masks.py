"""Masks that each layer makes of constants of its own: written once; what leaves the graph has memory of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import inductor_npu.config as config
from tests.compile.helpers import assert_equal, check
from tests.lowering.graph_passes.calls import calls


@pytest.fixture(autouse=True)
def _library() -> Iterator[None]:
    """Kernels of attention make masks themselves."""
    with config.patch(templates="none"):
        yield


X = torch.randn(2, 4, 32, 16)
ROWS, COLUMNS = torch.arange(32), torch.arange(32).flip(0)
ALLOWED = ROWS[:, None] >= ROWS


def layers(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    allowed = rows[:, None] + columns >= 16
    for _ in range(3):
        x = F.scaled_dot_product_attention(x, x, x, attn_mask=allowed)
    return x


def mask(allowed: torch.Tensor, forbidden: float = float("-inf")) -> torch.Tensor:
    return torch.where(allowed, 0.5, forbidden)


@pytest.mark.parametrize(("passes", "masks"), [("all", 1), ("none", 3)])
def test_layers_of_attention_share_their_mask(passes: str, masks: int) -> None:
    """More layers cost no other kernel, then."""
    inputs = [value.to("npu") for value in (X, ROWS, COLUMNS)]
    with config.patch(graph_passes=passes):
        result, (module,) = run_and_get_code(torch.compile(layers), *inputs)
    assert_equal(result, layers(X, ROWS, COLUMNS))
    assert module.count("tl.store(") == masks


@pytest.mark.parametrize(("one", "other"), [(-1.0, -2.0), (0.0, -0.0)])
def test_other_constants_are_another_mask(one: float, other: float) -> None:
    def two(x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        return torch.copysign(x, mask(allowed, one)) + mask(allowed, one) + 2 * torch.copysign(x, mask(allowed, other))

    calls(two, X[0, 0, :, :1], ALLOWED)


def test_results_have_memory_of_their_own() -> None:
    def two(allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return mask(allowed), mask(allowed), mask(allowed).t()

    first, second, third = torch.compile(two)(ALLOWED.to("npu"))
    first.fill_(7)
    assert_equal((second, third), two(ALLOWED)[1:])


@pytest.mark.slow
def test_gradients_are_those_of_masks_of_their_own() -> None:
    check(layers, X.clone().requires_grad_(), ROWS, COLUMNS, backward=True)

"""What Ascend's compiler makes of comparisons along some axes of a tile: 256 bytes at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.ascend.environment import AscendEnvironment
from tests.codegen.on_ascend import assert_vector_and_right

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.func.grad(lambda y: (function(y) ** 2).sum())(x)


def attention_mask(kept: torch.Tensor) -> torch.Tensor:
    return torch.where(kept[:, None] != 0, 0.0, -torch.inf).expand(2, 17, 17).clone()


def embedding(token: torch.Tensor, patches: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """A token before patches of an image, as in a vision transformer."""
    return F.layer_norm(torch.cat((token.expand(2, 1, 64), patches.transpose(1, 2)), 1) + positions, (64,))


def rows_from(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(20, device=x.device)[:, None] < 3, x, 1.0).sum(-1)


def scaled_by_the_place_of_a_zero(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Conditions are compared as whole numbers: which is the largest, and where the first of those is."""
    return y * (x == 0).int().max(0).indices


def folded_back(grad: torch.Tensor) -> torch.Tensor:
    """The gradient of a mirrored border of two elements on each side."""
    return torch.ops.aten.reflection_pad2d_backward(grad, grad.new_empty(2, 16, 14, 14), (2, 2, 2, 2)) * 2


def quarters(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Each element selected by two indices: both rows and columns are compared."""
    upper = torch.cat((x.mT, torch.zeros_like(x)), -1)
    return torch.cat((upper, torch.cat((y, x.mT), -1)), -2)


def zeros_in_masked_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.where((x != -torch.inf).any(-1, keepdim=True), torch.softmax(x, -1), 0.0)


def cases() -> list[tuple]:
    norms = torch.rand(25)
    norms[3] = 0
    return [
        (lambda x, rows: x * rows[:, None], torch.randn(100, 64), torch.rand(100) > 0.5),
        (attention_mask, torch.arange(34).view(2, 17) % 3),
        (lambda x, norm: torch.where(norm[:, None] == 0, 0.0, x / norm[:, None]).sum(-1), torch.randn(25, 10), norms),
        (lambda x: (x * (torch.arange(17, device=x.device) == 0)[:, None]).sum(-1), torch.randn(2, 17, 64)),
        (embedding, torch.randn(1, 1, 64), torch.randn(2, 64, 16), torch.randn(17, 64)),
        (rows_from, torch.randn(6, 20, 40)),
        (scaled_by_the_place_of_a_zero, torch.randint(3, (5, 25)), torch.randn(8, 25)),
        (lambda x: (x == 3).int().argmax(-1), torch.randint(5, (2, 17))),
        (lambda x: x.cummax(0), torch.randn(5, 25)),
        (lambda x: x.logcumsumexp(0), torch.randn(5, 25)),
        (gradient(lambda x: F.avg_pool2d(x, 2)), torch.randn(4, 8, 28, 28)),
        (gradient(lambda x: F.pad(x, (2, 3, 1, 1))), torch.randn(2, 16, 14, 14)),
        (folded_back, torch.randn(2, 16, 18, 18)),
        (zeros_in_masked_rows, torch.randn(2, 4, 8, 8)),
        (quarters, torch.randn(5, 5, 5), torch.randn(5, 5, 5)),
        (torch.cartesian_prod, torch.randn(1), torch.randn(2), torch.randn(4)),
    ]


def test_comparisons_of_short_rows_are_vector_instructions(ascend: AscendEnvironment, own_cache: Path) -> None:
    assert_vector_and_right(cases)

"""What Ascend's compiler makes of loads by loaded or rounded indices, picked on chip from all that these lead to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.ascend.environment import AscendEnvironment
from tests.codegen.on_ascend import assert_vector_and_right

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


def cases() -> list[tuple]:
    return [
        (lambda x, i: x.gather(1, i) * 2, torch.randn(64, 200), torch.randint(0, 200, (64, 50))),
        (lambda x, i: x[:, i] * 2, torch.randn(64, 200), torch.randint(-200, 200, (50,))),
        (lambda x, i: x.gather(0, i), torch.randn(5, 5), torch.randint(0, 5, (5, 5))),
        (lambda x, i: x[i], torch.randint(100, (2, 512)).view(-1), torch.randint(-512, 512, (17,))),
        (lambda x, at: F.grid_sample(x, at, align_corners=False), torch.randn(2, 3, 5, 5), torch.randn(2, 4, 6, 2)),
        (lambda x, i: F.nll_loss(x, i, reduction="none"), torch.randn(100, 10), torch.randint(0, 10, (100,))),
    ]


def cases_of_adaptive_pools() -> list[tuple]:
    return [
        (lambda x: F.adaptive_avg_pool1d(x, 5), torch.randn(4, 6, 8)),
        (lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), torch.randn(4, 3, 4)),
        (lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True), torch.randn(2, 4, 4, 4)),
    ]


def test_windows_that_begin_at_rounded_indices_are_picked_by_vector_instructions(
    ascend: AscendEnvironment, own_cache: Path
) -> None:
    assert_vector_and_right(cases_of_adaptive_pools)


def test_elements_of_short_rows_are_picked_by_vector_instructions(ascend: AscendEnvironment, own_cache: Path) -> None:
    assert_vector_and_right(cases)

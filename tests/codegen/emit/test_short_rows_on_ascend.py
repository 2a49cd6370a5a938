"""What Ascend's compiler makes of rows, and of whole tensors, that are shorter than its blocks of 32 bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.ascend.environment import AscendEnvironment
from tests.codegen.on_ascend import assert_vector_and_right

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x, 2, weight, bias)


def turned(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.transpose(1, 2).to(dtype).contiguous()


def narrow_cases() -> list[tuple]:
    x = 3 * torch.randn(2, 3, 6)
    return [
        *((turned(dtype), x) for dtype in (torch.bool, torch.int8, torch.uint8, torch.int16, torch.float16)),
        (lambda x: x.unbind(1)[4] + x.unbind(1)[1], torch.randn(5, 5, 5)),
        (lambda x, mask: torch.where(mask, x, 0.0).sum((0, 2)), torch.randn(2, 64, 16), torch.rand(2, 64, 16) > 0.5),
        (lambda x: F.pad(x, (0, 0, 1, 0)) * 2, torch.randn(2, 6, 3)),
        (lambda x, row: torch.select_scatter(x, row, 1, 2), torch.randn(5, 5, 5), torch.randn(5, 5)),
        (lambda x: torch.gradient(x, dim=1)[0], torch.randn(4, 4, 4)),
    ]


def test_short_rows_of_narrow_types_and_parts_of_short_rows(ascend: AscendEnvironment, own_cache: Path) -> None:
    assert_vector_and_right(narrow_cases)


def cases() -> list[tuple]:
    return [
        (group_norm, torch.randn(2, 6, 3), torch.randn(6), torch.randn(6)),
        (lambda x, bias: x + bias[:, None], torch.randn(2, 2, 2), torch.randn(2)),
        (lambda x, row: torch.cat((x, row.expand(1, 2, 2))), torch.randn(3, 2, 2), torch.randn(1, 1, 2)),
        (lambda x: x.t().contiguous(), torch.randn(4, 3)),
        (lambda x: (x > 0).cumsum(-1), torch.randn(50, 5)),
        (lambda x: F.adaptive_avg_pool2d(x, (8, 7)), torch.randn(2, 8, 8, 8)),
    ]


def test_short_rows_are_moved_and_computed_by_vector_instructions(ascend: AscendEnvironment, own_cache: Path) -> None:
    assert_vector_and_right(cases)

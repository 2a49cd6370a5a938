"""What Ascend's compiler makes of reductions: vector instructions, with the results of the embedded NPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor_npu.ascend.environment import AscendEnvironment
from tests.codegen.on_ascend import assert_vector_and_right

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


def integers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, shape, dtype=dtype)


def cases() -> list[tuple]:
    x = torch.randn(64, 1000)
    return [
        (lambda x: (x > 0).sum(-1), x),
        (torch.count_nonzero, x),
        (lambda x: x.sum(-1), integers(torch.int64, 64, 1000)),
        (lambda x: x.sum(0), integers(torch.int64, 300, 64)),
        (lambda x: x.sum(-1), integers(torch.int32, 64, 1000)),
        (lambda x: x.sum(-1, dtype=torch.int32), integers(torch.int32, 64, 1000)),
        (lambda x: x.sum(), integers(torch.int32, 3, 7)),
        (lambda x: x.prod(-1), torch.rand(64, 50) + 0.5),
        (lambda x: (x + 1).sum(0), torch.randn(34, 64)),  # a loop over a row that ends within a block
        (lambda x: (x.exp() + 1).sum(-1), torch.randn(64, 20)),  # a selection beyond the end of short rows
        (lambda x: x.amax(), torch.randn(5, 4)),
        (lambda x, m: torch.softmax(x.masked_fill(m, -1e9), -1), torch.randn(4, 64, 64), torch.rand(4, 1, 64) > 0.5),
        (lambda x: (x / x.abs().amax(-1, keepdim=True) * 127).round().to(torch.int8), torch.randn(64, 1024)),
        (lambda x: x.sum(-1), torch.randn(16, 16384)),  # in parts
    ]


def test_reductions_are_vector_instructions_with_the_right_results(ascend: AscendEnvironment, own_cache: Path) -> None:
    assert_vector_and_right(cases)

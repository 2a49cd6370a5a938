"""Generated kernels have none of the forms that Ascend's compiler accepts and gets wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.ascend import check
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.lint import Severity
from tests.codegen.on_ascend import launch

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


def pooled(x: torch.Tensor, *window: int) -> torch.Tensor:
    """The gradient of a maximum over windows: positions are divided by the length of a window's row."""
    pool = F.max_pool2d if x.dim() == 4 else F.max_pool3d
    return torch.func.grad(lambda y: (pool(y, *window) ** 2).sum())(x)


def cases() -> list[tuple]:
    index = torch.randint(0, 10, (25,))
    return [
        (lambda x: pooled(x, 2), torch.randn(2, 4, 28, 28)),
        (lambda x: pooled(x, 3, 2, 1), torch.randn(2, 4, 28, 28)),
        (lambda x: F.max_pool3d(x, 3, 2, return_indices=True), torch.randn(1, 2, 7, 6, 5)),
        (F.embedding, index, torch.randn(10, 5)),
        (lambda x, index: x[index] * 2, torch.randn(10, 5), index),
        (lambda x, index: x[:, index] * 2, torch.randn(4, 10, 3), index),
        (lambda x, index: x[index] + 1, torch.randn(10, 7, dtype=torch.float16), index[:2]),
    ]


def test_no_kernel_is_among_those_that_the_lint_knows_to_be_wrong(ascend: AscendEnvironment, own_cache: Path) -> None:
    torch.manual_seed(0)
    report = check(launch(cases()))
    found = [(row.operators, finding.what) for row in report.rows for finding in row.lint if is_wrong(finding)]
    assert found == []
    assert len(report.rows) >= len(cases())


def is_wrong(finding) -> bool:
    return finding.about.severity is Severity.WRONG

"""What users run, without INDUCTOR_NPU_STRICT: programs of every kind of kernel need no eager stand-in.

A torch that calls us in another way can make every kernel fail, and the values would still be right.
"""

from __future__ import annotations

import warnings

import pytest
import torch

import inductor_npu.config
from inductor_npu.errors import NpuWarning
from tests.compile.helpers import check

pytestmark = pytest.mark.compiled


def _small_program(x: torch.Tensor, w: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), (40,))
    return torch.cat([rows[order], rows.cumsum(1)]), torch.softmax(rows, 0).sum(), rows.argmax(), rows.t() @ rows * w


def _trained(x: torch.Tensor, w: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return (torch.nn.functional.gelu(x)[order] @ w).sigmoid()


def test_no_kernel_of_small_programs_is_left_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_STRICT", raising=False)
    x, w, order = torch.randn(30, 40), torch.randn(40, 40), torch.randperm(30)
    with warnings.catch_warnings(), inductor_npu.config.patch(strict=False):
        warnings.simplefilter("error", NpuWarning)
        check(_small_program, x, w, order)
        check(_trained, x.requires_grad_(), w.requires_grad_(), order, backward=True)

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


def _small_program(x: torch.Tensor, w: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    rows = torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), (40,))
    parts = torch.cat([rows[order], rows.cumsum(1)]) + torch.softmax(rows, 0).sum()
    return parts @ w


def test_no_kernel_of_a_small_program_in_training_is_left_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_STRICT", raising=False)
    inputs = torch.randn(30, 40, requires_grad=True), torch.randn(40, 7, requires_grad=True), torch.randperm(30)
    with warnings.catch_warnings(), inductor_npu.config.patch(strict=False):
        warnings.simplefilter("error", NpuWarning)
        check(_small_program, *inputs, backward=True)

"""A fusion does not raise the memory that is live at once; what does not is fused as before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import code_of, kernel_count
from tests.peak_memory import peak_on_npu


def sums_of_products(c: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
    return sum((x @ c).sum(-1) for x in rows)


def cross_entropy_in_chunks(c: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
    target = torch.arange(rows[0].shape[0], device=c.device)
    return sum(F.cross_entropy(x @ c, target) for x in rows)


def extrema_in_chunks(c: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
    return sum((x @ c).amax() for x in rows)


def operands_of_one_tensor(c: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
    """Loops that read one tensor, which Inductor's own rules make one kernel."""
    return sum((F.gelu(c + number).t() @ c).amax() for number, _ in enumerate(rows))


PROGRAMS = (sums_of_products, cross_entropy_in_chunks, extrema_in_chunks, operands_of_one_tensor)


@pytest.mark.parametrize("function", PROGRAMS)
def test_what_is_reduced_one_by_one_is_not_all_kept(function: Callable[..., torch.Tensor]) -> None:
    c, rows = torch.randn(32, 1024, device="npu"), [torch.randn(128, 32, device="npu") for _ in range(4)]
    compiled = torch.compile(function)
    assert peak_on_npu(lambda: compiled(c, *rows)) <= 1.05 * peak_on_npu(lambda: function(c, *rows))


def test_products_whose_results_are_all_live_in_any_case_are_one_kernel() -> None:
    def gated(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.silu(x @ w) * (x @ v)

    def returned(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x @ w, x @ v

    inputs = [torch.randn(shape, device="npu") for shape in ((64, 32), (32, 48), (32, 48))]
    for function in (gated, returned):
        assert kernel_count(code_of(function, *inputs)) == 1

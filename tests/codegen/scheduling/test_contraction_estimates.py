"""What decides about fusion with a matrix product is planned once for layers that repeat each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import fresh_cache

from inductor_npu.codegen.scheduling import contraction_fusion
from tests.compile.helpers import code_of, kernel_count


def network(count: int) -> torch.nn.Module:
    layers = [torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.GELU()) for _ in range(count)]
    return torch.nn.Sequential(*layers).npu()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """An element for each kernel that is planned for an estimate."""
    plan_kernel, found = contraction_fusion.plan_kernel, []
    monkeypatch.setattr(contraction_fusion, "plan_kernel", lambda *args: found.append(None) or plan_kernel(*args))
    with fresh_cache():
        yield found


def test_a_further_layer_is_not_planned_again(planned: list[None]) -> None:
    x, counts = torch.randn(40, 48, device="npu"), []
    for layers in (3, 6):
        planned.clear()
        with torch.no_grad():
            assert kernel_count(code_of(network(layers), x)) == 1, "one text, launched for every layer"
        counts.append(len(planned))
    assert counts[0] == counts[1] > 0


def test_loops_that_differ_are_planned_each(planned: list[None]) -> None:
    x = torch.randn(40, 48, device="npu")
    w = torch.randn(3, 48, 48, device="npu")
    same = lambda x, w: F.gelu(F.gelu(x @ w[0]) @ w[1])  # noqa: E731 - a program
    other = lambda x, w: torch.relu(F.gelu(x @ w[0]) @ w[1])  # noqa: E731 - a program
    counts = []
    for program in (same, other):
        planned.clear()
        code_of(program, x, w)
        counts.append(len(planned))
    assert counts[0] < counts[1]

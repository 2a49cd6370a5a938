"""Loops are traced anew in another loop's shape only where that may join them, and wherever Inductor would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._inductor import scheduler

from inductor_npu.codegen.scheduling.reshaping import may_share
from tests.compile.helpers import check

pytestmark = pytest.mark.skipif(
    not hasattr(scheduler.Scheduler, "_try_reindex_pointwise_for_reduction"),
    reason="this torch does not give a loop another's shape",
)

ROWS, WIDTH, HEAD = 64, 512, 64


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, bool, int]]]:
    """For each try of Inductor: whether we would make it, whether it succeeds, how many loops it traces anew."""
    found: list[tuple[bool, bool, int]] = []
    traced: list[Any] = []
    reshape = scheduler.SchedulerNode.apply_loop_reindexing
    attempt = scheduler.Scheduler._try_reindex_pointwise_for_reduction.__wrapped__

    def apply_loop_reindexing(self: Any, lengths: Any) -> None:
        traced.append(self)
        reshape(self, lengths)

    def try_anyway(self: Any, node1: Any, node2: Any) -> bool:
        expected, before = may_share(node1, node2), len(traced)
        succeeded = attempt(self, node1, node2)
        found.append((expected, succeeded, len(traced) - before))
        return succeeded

    monkeypatch.setattr(scheduler.SchedulerNode, "apply_loop_reindexing", apply_loop_reindexing)
    monkeypatch.setattr(scheduler.Scheduler, "_try_reindex_pointwise_for_reduction", try_anyway)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield found


def norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def sum_and_norm_of_its_heads(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + bias
    return y, norm(y.view(-1, HEAD))


def norm_of_heads_and_scale(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return norm(x.view(-1, HEAD)).view(ROWS, WIDTH) * bias


def rotated_norm_of_heads(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    heads = x.view(-1, HEAD)
    first, second = heads.chunk(2, -1)
    return norm(torch.cat([-second, first], -1) + heads).view(ROWS, WIDTH) * bias


def scaled_heads(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
    heads = x.view(-1, HEAD)
    largest = heads.abs().amax(-1, keepdim=True)
    return (heads / largest).view(ROWS, WIDTH).to(torch.float16), largest, x * bias


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [sum_and_norm_of_its_heads, norm_of_heads_and_scale, rotated_norm_of_heads, scaled_heads]
)
def test_what_inductor_joins_by_reshaping_is_expected(
    function: Callable[..., Any], tries: list[tuple[bool, bool, int]]
) -> None:
    check(function, torch.randn(ROWS, WIDTH), torch.randn(WIDTH))
    assert any(succeeded for _, succeeded, _ in tries)
    assert all(expected for expected, succeeded, _ in tries if succeeded)


def test_sums_over_rows_in_parts_do_not_have_the_shape_of_a_pointwise_loop(tries: list[tuple[bool, bool, int]]) -> None:
    def scaled_and_summed(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * scale
        return y.transpose(0, 1).contiguous(), y.sum((0, 1))

    check(scaled_and_summed, torch.randn(32, ROWS, WIDTH), torch.randn(WIDTH))
    assert [(expected, succeeded) for expected, succeeded, traced in tries if traced] == [(False, False)]

"""Captures of one test are not those of another."""

from __future__ import annotations

import gc

import pytest
import torch

from inductor_npu.runtime.graph_capture import statistics


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    gc.collect()  # what other tests left does not decide where this test's tensors lie
    statistics._seen.clear()
    yield
    torch._dynamo.reset()  # with its graphs, which hold memory


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing():
    yield
    gc.collect()


@pytest.fixture
def counts():
    """(warmed up, captured, replayed, skipped) over all functions of the test, so far."""

    def total() -> tuple[int, int, int, int]:
        seen = statistics.graph_captures().values()
        return (
            sum(each.warmed_up for each in seen),
            sum(each.captured for each in seen),
            sum(each.replayed for each in seen),
            sum(sum(each.skipped.values()) for each in seen),
        )

    return total

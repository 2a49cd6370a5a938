"""What `python -m world passes` measures of a case, and what it says of a pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from opinfo.outcomes import Verdict
from world import passes
from world.case import Built
from world.outcomes import Outcome, from_json, to_json


class _WidePool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.max_pool2d(x.sin(), 5, 1, 2)


def _build(model: nn.Module) -> Built:
    return Built(model.eval(), (torch.randn(2, 40, 40),))


def _measure(model: nn.Module) -> Outcome:
    return passes.run_case("own/case", lambda _: _build(model), Outcome("own/case"), lambda _: None)


@pytest.mark.slow
def test_a_pass_that_rewrites_something_is_measured_without() -> None:
    outcome = from_json(to_json(_measure(_WidePool())))
    assert outcome.verdict is Verdict.PASSED
    assert set(outcome.passes) == {"all", "wide_pools", "none"}
    assert outcome.passes["all"]["launches"] > outcome.passes["wide_pools"]["launches"]


def test_a_case_in_which_nothing_is_rewritten_is_measured_once() -> None:
    assert set(_measure(nn.Tanh()).passes) == {"all"}


def test_what_does_not_run_has_a_reason() -> None:
    outcome = _measure(nn.Linear(3, 3))
    assert outcome.verdict is Verdict.SKIPPED and outcome.reason


def test_the_table_names_cases_that_gain_and_that_lose() -> None:
    measured = dict.fromkeys(("launches", "bytes", "cycles", "refused", "peak", "milliseconds", "seconds"), 100)
    gains = Outcome("own/gains", passes={"all": {**measured, "bytes": 90}, "wide_pools": measured})
    loses = Outcome("own/loses", passes={"all": {**measured, "peak": 110}, "wide_pools": measured})
    table = passes.table([gains, loses])
    assert [list(column.cells) for column in table.columns[-2:]] == [["1: own/gains"], ["1: own/loses"]]

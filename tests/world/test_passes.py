"""What `python -m world passes` measures of a case, and what it says of a pass."""

from __future__ import annotations

import torch
from torch import nn

from opinfo.outcomes import Verdict
from world import passes
from world.case import Built
from world.outcomes import Outcome, from_json, to_json


class _DiagonalOfOnes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.diagonal_scatter(x.exp(), torch.ones(x.shape[-1], device=x.device)).sin()


def _build(model: nn.Module) -> Built:
    return Built(model.eval(), (torch.randn(40, 40),))


def _measure(model: nn.Module) -> Outcome:
    return passes.run_case("own/case", lambda _: _build(model), Outcome("own/case"), lambda _: None)


def test_a_pass_that_rewrites_something_is_measured_without() -> None:
    outcome = from_json(to_json(_measure(_DiagonalOfOnes())))
    assert outcome.verdict is Verdict.PASSED
    assert set(outcome.passes) == {"all", "diagonals", "none"}
    assert outcome.passes["all"]["launches"] == 1
    assert outcome.passes["all"]["bytes"] < outcome.passes["diagonals"]["bytes"]


def test_a_case_in_which_nothing_is_rewritten_is_measured_once() -> None:
    assert set(_measure(nn.Tanh()).passes) == {"all"}


def test_what_does_not_run_has_a_reason() -> None:
    outcome = _measure(nn.Linear(3, 3))
    assert outcome.verdict is Verdict.SKIPPED and outcome.reason


def test_the_table_names_cases_that_gain_and_that_lose() -> None:
    measured = dict.fromkeys(("launches", "bytes", "cycles", "refused", "peak", "milliseconds", "seconds"), 100)
    gains = Outcome("own/gains", passes={"all": {**measured, "bytes": 90}, "diagonals": measured})
    loses = Outcome("own/loses", passes={"all": {**measured, "peak": 110}, "diagonals": measured})
    table = passes.table([gains, loses])
    assert [list(column.cells) for column in table.columns[-2:]] == [["1: own/gains"], ["1: own/loses"]]

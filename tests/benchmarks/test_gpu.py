"""The benchmark of a GPU, as far as it can be tried without one: `benchmarks/gpu`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from benchmarks.gpu import report
from benchmarks.gpu.__main__ import MACHINE, Worker, WorkerError
from benchmarks.gpu.case import GROUPS, Setup
from benchmarks.gpu.measuring import differs_in_distribution, distance, largest_difference, separate
from benchmarks.gpu.worker import all_cases

REHEARSAL = Setup(ours="npu", stock="cpu", scale=0.0001, rounds=1, seconds=0.001)


def test_each_case_has_a_name_of_its_own_and_a_known_group() -> None:
    cases = list(all_cases())
    assert len({(case.group, case.name) for case in cases}) == len(cases)
    assert {case.group for case in cases} == set(GROUPS)


@pytest.mark.slow
def test_a_worker_measures_and_tells_of_what_fails() -> None:
    worker = Worker(REHEARSAL)
    try:
        assert "ours" in worker.ask(MACHINE, 60)["bandwidth"]
        name = next(name for name in worker.cases if name.startswith("kernels: argmax"))
        measured = worker.ask(name, 120)
        assert measured["status"] == "measured" and not measured["differs"] and "broken" not in measured
        with pytest.raises(WorkerError, match="ended"):
            worker.ask(name, 0.001)
        with pytest.raises(WorkerError, match="ended"):
            worker.ask(name, 60)
    finally:
        worker.end()


@pytest.mark.slow
def test_a_worker_that_crashes_is_told_by_its_exit_status() -> None:
    worker = Worker(REHEARSAL)
    with pytest.raises(WorkerError, match="crashed: exit status 1"):
        worker.ask("no such case", 60)


def test_what_differs_is_seen() -> None:
    x = torch.linspace(-1, 1, 1000)
    assert largest_difference(x, x) == 0 and distance([x], [x]) == 0
    worse = x.clone()
    worse[3] += 0.5
    assert largest_difference(worse, x) == pytest.approx(0.5)
    worse[3] = math.nan
    assert largest_difference(worse, x) == math.inf and distance([worse], [x]) == math.inf
    assert largest_difference(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5])) == 0.25
    assert largest_difference(x, x[:10]) == math.inf
    assert differs_in_distribution(x * 2, x) > 0.5


def test_a_separate_function_has_its_own_code() -> None:
    offset = 2

    def shift(x: int) -> int:
        return x + offset

    assert separate(shift, "a")(1) == 3 and separate(shift, "a").__code__ is not separate(shift, "b").__code__


def test_the_tables_name_what_differs_and_what_was_not_measured() -> None:
    times = {"ours": 0.002, "stock": 0.004, "eager": 0.006}
    results: list[dict[str, Any]] = [
        {"group": "kernels", "name": "good", "status": "measured", **times, "bytes": 10**9, "error": 0.0},
        {
            "group": "kernels",
            "name": "bad",
            "status": "measured",
            **times,
            "bytes": 10**9,
            "error": 0.5,
            "differs": True,
        },
        {"group": "models", "name": "missing", "status": "failed", "reason": "RuntimeError: a | b"},
    ]
    text = report.markdown({"machine": {"card": "X"}, "bandwidth": {"stock": 1e12}, "results": results})
    assert "| good | 2.000 | 4.000 | 6.000 | 2.00 | 3.00 | 50% |" in text
    assert "bad (DIFFERS: 5.0e-01)" in text and "| geometric mean |  |  |  | 2.00 | 3.00 |  |" in text
    assert "| models: missing | failed | RuntimeError: a \\| b |" in text

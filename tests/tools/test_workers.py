"""A sweep survives what its samples do to a process."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

import pytest

from opinfo.outcomes import Outcome, Verdict
from opinfo.tasks import Task
from tools import workers

INDICES = tuple(range(6))


def work(pipe: Connection) -> None:
    """Passes every sample but those that an operator is named after."""
    while True:
        task, left = pipe.recv()
        for index in left:
            pipe.send(("begin", index))
            if task.operator == "crashing" and index in (1, 3):
                print("planted error: this process ends", flush=True)
                os.abort()
            if task.operator == "always crashing":
                os.abort()
            if (task.operator, index) in (("hanging", 2), ("hanging last", INDICES[-1])):
                time.sleep(600)
            pipe.send(("outcome", Outcome(task.case(index), Verdict.PASSED)))
        pipe.send(("done", False))


def run(*names: str, deadline: float | None = None, jobs: int = 2) -> tuple[dict[str, list[Outcome]], int]:
    """The outcomes of six samples of each operator in the order in which they came, and how many tasks ended."""
    found: dict[str, list[Outcome]] = {name: [] for name in names}
    ended: list[Task] = []
    tasks = [Task(name, "float32", INDICES, False, "npu") for name in names]
    workers.run(
        tasks,
        workers.Processes(work, preload=("opinfo.tasks",)),
        jobs=jobs,
        limit=1,
        on_outcome=lambda task, outcome: found[task.operator].append(outcome),
        on_task=ended.append,
        deadline=deadline,
    )
    return found, len(ended)


@pytest.mark.slow
def test_each_sample_has_one_outcome_whatever_another_does() -> None:
    found, ended = run("fine", "crashing", "hanging", "also fine")
    assert ended == 4
    for outcomes in found.values():
        assert [outcome.case.index for outcome in outcomes] == list(INDICES)
    bad = {
        (outcome.case.operator, outcome.case.index): outcome
        for outcomes in found.values()
        for outcome in outcomes
        if outcome.failed
    }
    assert {place: outcome.verdict for place, outcome in bad.items()} == {
        ("crashing", 1): Verdict.CRASH,
        ("crashing", 3): Verdict.CRASH,
        ("hanging", 2): Verdict.TIMEOUT,
    }
    reason = bad["crashing", 1].reason
    assert reason.startswith("SIGABRT") and "planted error" in reason and "test_workers.py" in reason


@pytest.mark.slow
def test_an_operator_that_crashes_again_and_again_is_given_up() -> None:
    found, ended = run("always crashing", "fine")
    assert ended == 2 and len(found["fine"]) == len(INDICES)
    assert [outcome.verdict for outcome in found["always crashing"]] == [Verdict.CRASH] * workers.GIVE_UP


@pytest.mark.slow
def test_a_task_follows_one_whose_last_case_was_lost() -> None:
    found, ended = run("hanging last", "fine", jobs=1)
    assert ended == 2 and len(found["fine"]) == len(INDICES)


@pytest.mark.slow
def test_a_sweep_ends_when_its_time_is_up() -> None:
    start = time.monotonic()
    found, ended = run("hanging", "hanging too", deadline=start)
    assert ended == 0 and not any(found.values()) and time.monotonic() - start < 60

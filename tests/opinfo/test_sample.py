"""A fixed sample of the sweep: no operator may be worse than the table in git, and no value wrong that is not known.

The table of the torch that runs is meant; with another torch than its own only crashes of the sweep itself show.
"""

from __future__ import annotations

import pytest

from opinfo import plan, table
from opinfo.outcomes import Case, Outcome, Verdict
from opinfo.samples import dtypes_of, operators
from opinfo.tasks import PROCESSES
from tools import workers

pytestmark = pytest.mark.slow
EVERY = 20  # of the operators by name
MOST = 2  # samples of each


def sweep() -> dict[Case, Outcome]:
    """Static and dynamic, in the operator's main dtype."""
    names = sorted(operators())[::EVERY]
    found: dict[Case, Outcome] = {}
    tasks = [
        task
        for stage in plan.stages(MOST, static=True, dynamic=True)
        if stage.main
        for task in plan.tasks(stage, names, dtypes_of, "npu", found, {})
    ]
    workers.run(
        tasks,
        PROCESSES,
        jobs=2,
        limit=120,
        on_outcome=lambda task, outcome: found.update({outcome.case: outcome}),
    )
    return found


def test_no_operator_of_a_fixed_sample_got_worse() -> None:
    found = sweep()
    passed = sum(outcome.verdict is Verdict.PASSED for outcome in found.values())
    assert len(found) > 80 and passed > 0.9 * len(found)
    assert table.worse(table.read("npu"), table.lines(found, {})) == []

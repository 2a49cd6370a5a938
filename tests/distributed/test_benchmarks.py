"""The measurements between ranks (docs/benchmarks.md): that they run and compare equal work, not their numbers."""

from __future__ import annotations

import pytest

from benchmarks import collectives, data_parallel
from benchmarks.report import Report, Section


def test_collectives_of_both_sides_have_the_right_values() -> None:
    rows = collectives.measure(2, turns=5, sizes=(4096,), seconds_per_side=0.01)
    assert [(row.name, row.correct) for row in rows] == [("all_reduce", True), ("all_gather_into_tensor", True)]
    assert all(min(row.npu, row.gloo, row.npu_queued, row.gloo_queued) > 0 for row in rows)
    [(_, header, lines)] = Report(collectives=rows).tables(Section.RANKS)
    assert [line[:3] for line in lines[:2]] == [(row.name, "2", "4 KiB") for row in rows]
    assert {len(line) for line in lines} == {len(header)}


@pytest.mark.slow
def test_a_step_on_both_sides_learns_the_same() -> None:
    row = data_parallel.measure(turns=1)
    assert row.correct
    assert 0 < row.overlap <= row.collectives < row.compiled * 100


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ([(0, 2)], [(1, 3)], 1),
        ([(0, 2), (1, 4)], [(3, 3.5), (0, 1)], 1.5),
        ([(0, 2)], [(2, 3)], 0),
        ([(0, 1), (4, 5)], [(0, 5), (0, 2)], 2),
        ([], [(0, 1)], 0),
    ],
)
def test_overlap(some: list[data_parallel.Interval], others: list[data_parallel.Interval], expected: float) -> None:
    assert data_parallel.overlapping(some, others) == data_parallel.overlapping(others, some) == expected

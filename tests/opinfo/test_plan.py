"""The order of a sweep: all operators first, then all dtypes, then more samples."""

from __future__ import annotations

from opinfo import plan
from opinfo.outcomes import Case
from opinfo.plan import Stage
from opinfo.tasks import Task

DTYPES = {"add": ["float32", "int64"], "and": ["int64", "bool"]}


def test_breadth_comes_first() -> None:
    found = [
        (stage.first, stage.last, stage.dynamic, stage.main) for stage in plan.stages(6, static=True, dynamic=True)
    ]
    assert found == [
        (first, last, dynamic, main)
        for first, last in ((0, 1), (1, 4), (4, 6))
        for dynamic in (False, True)
        for main in (True, False)
    ]


def tasks(stage: Stage, known: set[Case], ends: dict[tuple[str, str], int]) -> list[Task]:
    return list(plan.tasks(stage, list(DTYPES), DTYPES.__getitem__, "npu", known, ends))


def test_an_operator_without_float32_has_another_main_dtype() -> None:
    first = Stage("", main=True, dynamic=False, first=0, last=1)
    assert [(task.operator, task.dtype) for task in tasks(first, set(), {})] == [("add", "float32"), ("and", "int64")]
    others = Stage("", main=False, dynamic=False, first=0, last=1)
    assert [(task.operator, task.dtype) for task in tasks(others, set(), {})] == [("add", "int64"), ("and", "bool")]


def test_what_is_known_is_not_run_again() -> None:
    stage = Stage("", main=True, dynamic=True, first=1, last=4)
    known = {Case("add", "float32", 2, dynamic=True), Case("add", "float32", 3, dynamic=False)}
    assert tasks(stage, known, {("and", "int64"): 1}) == [Task("add", "float32", (1, 3), True, "npu")]

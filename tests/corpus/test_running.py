"""`--run` over the corpus: what Ascend's compiler understood is executed, each kernel once."""

from __future__ import annotations

import pytest

from corpus import running
from corpus.check import check
from corpus.table import Line
from inductor_npu.providers import DEFAULT_TARGET

pytestmark = [pytest.mark.ascend, pytest.mark.slow]
PROGRAMS = ("activation/relu", "softmax/softmax dynamic", "dtype/double")


def checked() -> tuple[list[Line], list[int]]:
    """The lines, and how many kernels were known as run, each time that was said."""
    counts: list[int] = []

    def progress(what: str, done: int, total: int) -> None:
        if what == "running":
            counts.append(done)

    return check(PROGRAMS, DEFAULT_TARGET, jobs=1, progress=progress, run=True), counts


def test_each_kernel_is_run_once_and_its_outcome_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, counts = checked()
    outcomes = {line.program: line.run for line in lines}
    assert outcomes["activation/relu"] == outcomes["softmax/softmax dynamic"] == "agrees"
    assert outcomes["dtype/double"].startswith("cannot execute: Ascend's front end refused it")
    assert counts == list(range(1, len(lines) + 1))

    def never(*arguments: object, **keywords: object) -> None:
        raise AssertionError("a kernel that was run is run again")

    monkeypatch.setattr(running, "run_kernels", never)
    assert checked()[0] == lines

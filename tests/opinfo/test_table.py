"""The table: one line for each operator and dtype, and the share of stock Inductor's samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from opinfo import table
from opinfo.outcomes import Case, Outcome, Verdict
from opinfo.table import Line


def outcomes(*verdicts: Verdict, reason: str = "", operator: str = "add") -> dict[Case, Outcome]:
    cases = [Case(operator, "float32", index) for index in range(len(verdicts))]
    return {case: Outcome(case, verdict, reason) for case, verdict in zip(cases, verdicts)}


def test_the_worst_sample_is_the_verdict() -> None:
    found = outcomes(Verdict.PASSED, Verdict.ERROR, Verdict.SKIPPED, Verdict.ERROR, reason="KeyError: 3")
    stock = outcomes(Verdict.PASSED, Verdict.ERROR)
    assert table.lines(found, {}) == [Line("add", "float32", "error", 3, 1, "?", reason="2 x error: KeyError: N")]
    assert table.lines(outcomes(Verdict.PASSED, Verdict.WRONG), stock)[0].stock_fails == "1"


def test_samples_that_eager_refuses_do_not_count() -> None:
    assert table.lines(outcomes(Verdict.PASSED, Verdict.SKIPPED, reason="no"), {}) == [
        Line("add", "float32", "passed", 1, 1)
    ]
    (line,) = table.lines(outcomes(Verdict.SKIPPED, reason="sparse inputs"), {})
    assert (line.verdict, line.samples, line.reason) == ("skipped", 0, "1 x sparse inputs")


def test_what_stock_inductor_fails_is_not_in_the_share() -> None:
    found = outcomes(Verdict.PASSED, Verdict.PASSED, Verdict.ERROR, Verdict.ERROR)
    stock = outcomes(Verdict.PASSED, Verdict.PASSED, Verdict.PASSED, Verdict.CRASH)
    total = table.total(found, stock)
    assert (total.ran, total.passed, total.stock_passes, total.share) == (4, 2, 3, 2 / 3)
    assert table.total(found, {}).share == 0.5


def test_a_verdict_that_became_worse_is_worse() -> None:
    good, bad = Line("add", "float32", "passed", 3, 3), Line("add", "float32", "error", 3, 2, reason="1 x error")
    assert table.worse([good], [bad]) == ["add float32: was passed, is error (1 x error)"]
    assert table.worse([bad], [bad]) == table.worse([bad], [good]) == table.worse([], [bad]) == []


def test_a_table_reads_back_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    written = table.lines(outcomes(Verdict.PASSED, Verdict.ERROR, reason='KeyError: "\\" \t'), {})
    table.write("npu", written)
    assert table.read("npu") == written

"""Outcomes on disk: a sweep that was killed goes on where it was."""

from __future__ import annotations

from pathlib import Path

from opinfo.outcomes import Case, Outcome, OutcomeFile, Verdict

PASSED = Outcome(Case("add", "float32", 0), Verdict.PASSED, seconds=1.5)
FAILED = Outcome(Case("sort", "bool", 3, True), Verdict.ERROR, "TypeError: no", ("aten.sort.stable",), "statistics")


def test_outcomes_are_there_again(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "folder" / "outcomes.jsonl")
    file.add(PASSED)
    file.add(FAILED)
    file.add_end("add", "float32", 12)
    again = OutcomeFile(file.path)
    assert again.known == {PASSED.case: PASSED, FAILED.case: FAILED}
    assert again.ends == {("add", "float32"): 12}


def test_the_last_outcome_of_a_case_counts(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "outcomes.jsonl")
    file.add(Outcome(PASSED.case, Verdict.WRONG, "1 of 2 elements"))
    file.add(PASSED)
    assert OutcomeFile(file.path).known == {PASSED.case: PASSED}


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "outcomes.jsonl")
    file.add(PASSED)
    with file.path.open("a") as text:
        text.write('{"operator": "so')
    again = OutcomeFile(file.path)
    assert again.known == {PASSED.case: PASSED}
    again.add(FAILED)
    assert OutcomeFile(file.path).known == {PASSED.case: PASSED, FAILED.case: FAILED}


def test_what_failed_can_be_run_again(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "outcomes.jsonl")
    file.add(PASSED)
    file.add(FAILED)
    file.forget(lambda outcome: outcome.failed)
    assert file.known == {PASSED.case: PASSED}

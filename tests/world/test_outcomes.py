"""Outcomes on disk: a sweep that was killed goes on where it was; a case whose process ended is accounted for."""

from __future__ import annotations

from pathlib import Path

from opinfo.outcomes import Verdict
from tools.workers import Loss
from world.outcomes import COMPILED, ON_CPU, STOCK, Outcome, OutcomeFile, Side, from_json, read, to_json
from world.tasks import Task

RAN = Outcome(
    "own/unet",
    Verdict.PASSED,
    cpu=Side(Verdict.PASSED, peak=900),
    eager=Side(Verdict.PASSED),
    npu=Side(Verdict.PASSED, how="eager", seconds=2.5, peak=1000),
    stock=Side(Verdict.WRONG, "result: 1 of 2 elements"),
    left_to_eager={"aten.topk | no lowering": 2},
    seconds=9.0,
)


def test_outcomes_are_there_again(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "folder" / "one.jsonl")
    file.add(RAN)
    file.add(Outcome("own/gan", Verdict.ERROR, "TypeError: no", COMPILED))
    with file.path.open("a") as text:
        text.write('{"case": "own/vae", "verd')  # as if killed
    again = OutcomeFile(file.path)
    assert again.known == file.known and again.known["own/unet"] == RAN
    again.forget(lambda outcome: outcome.failed)
    assert set(again.known) == {"own/unet"}


def test_of_a_case_in_two_files_the_later_counts(tmp_path: Path) -> None:
    for name, verdict in (("a", Verdict.WRONG), ("b", Verdict.PASSED)):
        OutcomeFile(tmp_path / f"{name}.jsonl").add(Outcome("own/unet", verdict))
    assert read(sorted(tmp_path.glob("*.jsonl")))["own/unet"].verdict is Verdict.PASSED


def test_a_case_that_ended_its_process_is_of_the_side_at_which_it_was() -> None:
    def lost(stage: str, **known: Side) -> Outcome:
        said = to_json(Outcome("own/unet", stage=stage, **known))
        return Task("own/unet").lost(0, Loss(late=False, begun=True, reason="SIGSEGV", said=said))

    assert lost(ON_CPU).verdict is Verdict.SKIPPED
    assert lost(COMPILED).verdict is Verdict.CRASH
    at_stock = lost(STOCK, eager=Side(Verdict.PASSED), npu=Side(Verdict.PASSED))
    assert at_stock.verdict is Verdict.PASSED and at_stock.stock == Side(Verdict.CRASH, "SIGSEGV")


def test_fields_that_are_not_known_any_more_are_left_out() -> None:
    assert from_json({**to_json(RAN), "gone": 1}) == RAN

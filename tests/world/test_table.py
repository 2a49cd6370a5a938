"""The page's tables, and the share of a commit."""

from __future__ import annotations

from opinfo.outcomes import Verdict
from world import share, table
from world.outcomes import COMPILED, Outcome, Side


def outcome(case: str, verdict: Verdict = Verdict.PASSED, seconds: float = 2.0, peak: int = 100) -> Outcome:
    """A case that stock Inductor compiles in a second with a peak of 100 bytes."""
    return Outcome(
        case,
        verdict,
        "" if verdict is Verdict.PASSED else "result: 1 of 2 elements",
        "" if verdict is Verdict.PASSED else COMPILED,
        npu=Side(verdict, seconds=seconds, peak=peak),
        stock=Side(Verdict.PASSED, seconds=1.0, peak=100),
        graphs=1,
        seconds=5.0,
    )


def test_the_page_has_a_row_a_library_and_names_what_fails_and_what_is_dear() -> None:
    outcomes = [
        outcome("timm/a"),
        outcome("timm/b", seconds=0.5),
        outcome("own/c", Verdict.WRONG),
        outcome("own/d", peak=120, seconds=3.0),
        Outcome("own/e", Verdict.SKIPPED, "needs a file"),
    ]
    outcomes[0].left_to_eager = {"aten.topk | no lowering": 2}
    text = table.markdown(outcomes, "python -m world", "2026-11-28", ["torch 2.13.0"])
    assert "| timm | 2 | 2 | 2 | 1 | 1.00 | 0 | 1 | 0 |" in text
    assert "| own | 2 | 1 | 2 | 1 | 3.00 | 1 | 0 | 1 |" in text
    assert "| all | 4 | 3 | 4 | 2 | 1.44 | 1 | 1 | 1 |" in text
    assert "| `own/c` | wrong value, compiled for npu | result: 1 of 2 elements | passed |" in text
    assert "| `own/d` | 1.20 |" in text and "| `own/d` | 3.00 |" in text
    assert "| `aten.topk` | no lowering | 1 | 2 | `timm/a` |" in text


def test_a_commit_names_cases_that_are_neither_dear_nor_none() -> None:
    names = [f"own/{number}" for number in range(50)]
    known = {line.case: line for line in table.lines({name: outcome(name) for name in names})}
    dear, none = outcome("own/dear"), Outcome("own/none", Verdict.SKIPPED)
    dear.seconds = 500
    known |= {line.case: line for line in table.lines({"own/dear": dear, "own/none": none})}
    all_names = [*names, "own/dear", "own/none", "own/new"]
    first = share.chosen(all_names, known, "ab12", 20)
    assert first == share.chosen(list(reversed(all_names)), known, "ab12", 20)
    assert len(set(first)) == 20 and set(first) <= set(names)
    assert set(first) != set(share.chosen(all_names, known, "ab13", 20))


def test_a_failure_that_the_table_names_is_no_news() -> None:
    known = {line.case: line for line in table.lines({"own/c": outcome("own/c", Verdict.WRONG)})}
    failing = [outcome("own/c", Verdict.WRONG), outcome("own/d", Verdict.WRONG)]
    worse, better = share.news(failing, known)
    assert [one.partition(":")[0] for one in worse] == ["own/d"] and not better
    assert share.news([outcome("own/c")], known) == ([], ["own/c: passes; the table says wrong value"])

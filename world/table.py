"""What is kept of a sweep in git: a line for each case (`tables/cases.tsv`), and the tables of docs/world.md."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opinfo.outcomes import FAILURES, Verdict
from tools.tables import read_table, write_table
from world.inductor_tests.reasons import reason_of
from world.outcomes import Outcome, Side

CASES = Path(__file__).parent / "tables" / "cases.tsv"
PAGE = Path(__file__).parents[1] / "docs" / "world.md"
BEGIN, END = "<!-- written by `python -m world table` -->", "<!-- end of what is written -->"
MORE_MEMORY = 1.05  # of stock's peak, above which a case is named
TWICE = 2.0  # of stock's compile time
_LISTED = 30


@dataclass(frozen=True)
class Line:
    """A case: its verdict, the stage and the reason of one that failed, stock Inductor's verdict ("" if it was not
    asked), and seconds of processor time that it took in all.
    """

    case: str
    verdict: str
    stage: str
    stock: str
    seconds: int
    reason: str

    @property
    def failed(self) -> bool:
        return Verdict(self.verdict) in FAILURES


def lines(outcomes: Mapping[str, Outcome]) -> list[Line]:
    """A line for each case, by name."""
    return [
        Line(
            one.case,
            one.verdict.value,
            one.stage,
            one.stock.verdict.value if one.stock else "",
            round(one.seconds),
            one.reason,
        )
        for _, one in sorted(outcomes.items())
    ]


def read(path: Path = CASES) -> dict[str, Line]:
    """The table in git, by case; empty if there is none."""
    return {line.case: line for line in read_table(path, Line)}


def write(outcomes: Mapping[str, Outcome], command: str, date: str, versions: Sequence[str]) -> None:
    """Writes both tables; cases that were not run now keep their lines in `tables/cases.tsv`."""
    known = read() | {line.case: line for line in lines(outcomes)}
    write_table(CASES, Line, [known[name] for name in sorted(known)])
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    written = markdown(list(outcomes.values()), command, date, versions)
    PAGE.write_text(f"{before}{BEGIN}\n\n{written}\n{END}{rest.split(END)[1]}")


def markdown(outcomes: Sequence[Outcome], command: str, date: str, versions: Sequence[str]) -> str:
    """The tables of the page: a row a library, cases that fail, and what costs more than stock."""
    parts = [
        f"{len(outcomes)} cases: `{command}`, {date}, {', '.join(versions)}.",
        _libraries(outcomes),
        _failing([one for one in outcomes if one.failed and not reason_of(one)]),
        _explained([one for one in outcomes if reason_of(one)]),
        _dearer("Compile time above twice stock's", outcomes, _compile_ratio, TWICE),
        _dearer("Peak memory above 1.05 of stock's", outcomes, _memory_ratio, MORE_MEMORY),
        _left([one for one in outcomes if one.left_to_eager]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _libraries(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(sorted(one.library for one in outcomes)))
    rows = [_row(name, [one for one in outcomes if one.library == name]) for name in names]
    return _table(
        "Library | Cases | Right | Stock right | Slower to compile than stock | Compile time, of stock's |"
        " More memory than stock | Left to eager | Not built",
        [*rows, _row("all", outcomes)],
    )


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    ran = [one for one in outcomes if one.verdict is not Verdict.SKIPPED]
    compile_ratios = [ratio for one in ran if (ratio := _compile_ratio(one))]
    memory_ratios = [ratio for one in ran if (ratio := _memory_ratio(one))]
    mean = f"{statistics.geometric_mean(compile_ratios):.2f}" if compile_ratios else "-"
    return [
        name,
        str(len(ran)),
        str(sum(one.verdict is Verdict.PASSED for one in ran)),
        str(sum(_passed(one.stock) for one in ran)) if any(one.stock for one in ran) else "-",
        str(sum(ratio > 1 for ratio in compile_ratios)),
        mean,
        str(sum(ratio > MORE_MEMORY for ratio in memory_ratios)),
        str(sum(bool(one.left_to_eager) for one in ran)),
        str(len(outcomes) - len(ran)),
    ]


def _passed(side: Side | None) -> bool:
    return side is not None and side.verdict is Verdict.PASSED


def _compile_ratio(outcome: Outcome) -> float:
    """Compile time over stock Inductor's, 0 where a side did not compile."""
    if not (_passed(outcome.npu) and _passed(outcome.stock) and outcome.graphs):
        return 0.0
    assert outcome.npu and outcome.stock
    return outcome.npu.seconds / outcome.stock.seconds


def _memory_ratio(outcome: Outcome) -> float:
    """Peak memory over stock Inductor's, 0 where a side has none."""
    if not (_passed(outcome.npu) and _passed(outcome.stock)):
        return 0.0
    assert outcome.npu and outcome.stock
    return outcome.npu.peak / outcome.stock.peak if outcome.stock.peak else 0.0


def _failing(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for one in sorted(outcomes, key=lambda one: one.case):
        stock = "-" if one.stock is None else one.stock.verdict.value
        reason = one.reason or (f"above the time limit, {one.stage}" if one.verdict is Verdict.TIMEOUT else "")
        rows.append([f"`{one.case}`", f"{one.verdict.value}, {one.stage}", _cell(reason), stock])
    return _titled("Cases that fail", "Case | What | Reason | Stock Inductor", rows)


def _explained(outcomes: Iterable[Outcome]) -> str:
    tests: dict[str, list[str]] = {}
    for one in sorted(outcomes, key=lambda one: one.case):
        tests.setdefault(reason_of(one), []).append(one.case)
    rows = [[_cell(why), str(len(cases)), f"`{cases[0]}`"] for why, cases in tests.items()]
    return _titled("PyTorch's own tests that fail for a reason of theirs", "What the test does | Tests | Such as", rows)


def _dearer(title: str, outcomes: Sequence[Outcome], ratio_of: object, limit: float) -> str:
    assert callable(ratio_of)
    found = sorted(((ratio_of(one), one.case) for one in outcomes), reverse=True)
    rows = [[f"`{case}`", f"{ratio:.2f}"] for ratio, case in found if ratio > limit]
    more = f"\n\nand {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return _titled(title, "Case | Of stock's", rows[:_LISTED]) + more


def _left(outcomes: Iterable[Outcome]) -> str:
    calls: Counter[str] = Counter()
    cases: dict[str, list[str]] = {}
    for one in outcomes:
        for operator, count in one.left_to_eager.items():
            key = re.sub(r"\b\d+\b", "N", operator)
            calls[key] += count
            cases.setdefault(key, []).append(one.case)
    rows = []
    for key, count in calls.most_common(_LISTED):
        operator, _, reason = key.partition(" | ")
        rows.append([f"`{operator}`", _cell(reason), str(len(cases[key])), str(count), f"`{cases[key][0]}`"])
    return _titled("Left to eager", "Operators | Reason | Cases | Calls | Such as", rows)


def _titled(title: str, head: str, rows: Sequence[Sequence[str]]) -> str:
    return f"### {title}\n\n{_table(head, rows)}" if rows else ""


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    names = [name.strip() for name in head.split("|")]
    body = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in body)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

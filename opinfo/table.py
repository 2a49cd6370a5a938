"""The table in git: one line for each operator and dtype, with counts of its samples and the causes of what fails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from opinfo.outcomes import FAILURES, Case, Outcome, Verdict
from tools.tables import read_table, write_table

FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Line:
    """An operator and a dtype. `verdict` is the worst of its samples, static and dynamic. `passed` of `samples`
    (without skipped ones); `stock_fails`: how many of those that fail do so with stock Inductor on the CPU too ("?"
    where that was not run). `eager`: operators left to eager though Inductor generates code for them. `how`: see
    Outcome. `reason`: the distinct causes, the most frequent first, each with its count.
    """

    operator: str
    dtype: str
    verdict: str
    samples: int
    passed: int
    stock_fails: str = ""
    how: str = ""
    eager: str = ""
    reason: str = ""


_ORDER = list(Verdict)


def lines(outcomes: Mapping[Case, Outcome], stock: Mapping[Case, Outcome]) -> list[Line]:
    """The table's lines, in the order of names."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes.values():
        groups.setdefault((outcome.case.operator, outcome.case.dtype), []).append(outcome)
    return [_line(operator, dtype, groups[operator, dtype], stock) for operator, dtype in sorted(groups)]


def _line(operator: str, dtype: str, found: list[Outcome], stock: Mapping[Case, Outcome]) -> Line:
    ran = [outcome for outcome in found if outcome.verdict is not Verdict.SKIPPED]
    failed = [outcome for outcome in ran if outcome.failed]
    worst = max((outcome.verdict for outcome in found), key=_ORDER.index)
    worst = Verdict.PASSED if ran and not failed else worst
    theirs = [stock.get(outcome.case) for outcome in failed]
    told = failed or [outcome for outcome in found if outcome.verdict is Verdict.SKIPPED and not ran]
    return Line(
        operator,
        dtype,
        worst.value,
        len(ran),
        len(ran) - len(failed),
        "" if not failed else "?" if None in theirs else str(sum(one.failed for one in theirs if one)),
        " ".join(sorted({outcome.how for outcome in ran} - {""})),
        " ".join(sorted({name for outcome in ran for name in outcome.eager})),
        "; ".join(f"{count} x {cause}" for cause, count in causes(told).most_common(3)),
    )


def causes(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How often each cause occurs: reasons, with the numbers in them left out."""
    return Counter(cause(outcome) for outcome in outcomes)


def cause(outcome: Outcome) -> str:
    """The outcome's verdict and reason, the same for samples that fail alike."""
    if outcome.verdict is Verdict.WRONG:
        part = "".join(
            f" ({word})" for word in ("backward", "inputs afterwards", "shape", "torch.") if word in outcome.reason
        )
        return f"{outcome.verdict.value}{part}"
    words = re.sub(r"0x[0-9a-f]+|\b\d+(\.\d+)?\b", "N", outcome.reason)
    words = re.sub(r"(triton_\w+|buf\w*|tmp\w*|(arg|primals|tangents)_N?\w*)", "NAME", words)
    return words if outcome.verdict is Verdict.SKIPPED else f"{outcome.verdict.value}: {words}".strip(": ")


@dataclass(frozen=True)
class Sum:
    """Counts of samples. `both`: those that pass with us and with stock Inductor, as far as stock's outcome is known;
    a sample that passes here and was not run there counts as passing there, so that `share` is a lower bound.
    """

    ran: int
    passed: int
    stock_passes: int
    passed_of_those: int
    not_compared: int

    @property
    def share(self) -> float:
        return self.passed_of_those / self.stock_passes if self.stock_passes else 1.0


def total(outcomes: Mapping[Case, Outcome], stock: Mapping[Case, Outcome]) -> Sum:
    """How many samples pass, and how many of those that stock Inductor passes on the CPU."""
    ran = [outcome for outcome in outcomes.values() if outcome.verdict is not Verdict.SKIPPED]
    passes = [outcome for outcome in ran if outcome.case not in stock or not stock[outcome.case].failed]
    return Sum(
        len(ran),
        sum(not outcome.failed for outcome in ran),
        len(passes),
        sum(not outcome.failed for outcome in passes),
        sum(outcome.case not in stock for outcome in ran),
    )


def worse(before: Iterable[Line], after: Iterable[Line]) -> list[str]:
    """What fails that did not fail, or fails in a worse way, in words.

    Lines of one table only are not compared, nor is how many samples fail: a sweep may have run some of them only.
    """
    known = {(line.operator, line.dtype): line for line in before}
    found = []
    failures = {verdict.value for verdict in FAILURES}
    for line in after:
        old = known.get((line.operator, line.dtype))
        if old is None or line.verdict not in failures:
            continue
        names = [verdict.value for verdict in _ORDER]
        if names.index(line.verdict) > names.index(old.verdict):
            found.append(f"{line.operator} {line.dtype}: was {old.verdict}, is {line.verdict} ({line.reason})")
    return found


def path_of(device: str) -> Path:
    """The table of this torch: operators, their samples and what Inductor makes of them differ between versions."""
    return FOLDER / f"{device}-torch-{torch.__version__.split('+')[0]}.tsv"


def read(device: str) -> list[Line]:
    """The accepted table of a device; empty if there is none yet."""
    return read_table(path_of(device), Line)


def write(device: str, rows: Iterable[Line]) -> None:
    """Accepts `rows` as the table of a device."""
    write_table(path_of(device), Line, rows)

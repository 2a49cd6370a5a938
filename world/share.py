"""The cases that a commit's hash names, for a run of minutes: CI runs another share with each commit."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from opinfo.outcomes import Verdict
from world.outcomes import Outcome
from world.table import Line

DEAREST = 30  # seconds of processor time with stock Inductor; what takes longer is left to a whole sweep


def chosen(names: Collection[str], known: Mapping[str, Line], commit: str, count: int) -> list[str]:
    """At most `count` of the cases that the table has and that are neither dear nor no cases at all."""
    there = [name for name in sorted(names) if name in known and known[name].seconds <= DEAREST]
    there = [name for name in there if known[name].verdict not in (Verdict.SKIPPED.value, Verdict.TIMEOUT.value)]
    return random.Random(f"{commit} {count}").sample(there, min(count, len(there)))


def news(outcomes: Sequence[Outcome], known: Mapping[str, Line]) -> tuple[list[str], list[str]]:
    """(failures that the table does not name, and cases that pass though it names them), in words."""
    worse, better = [], []
    for one in outcomes:
        line = known.get(one.case)
        if one.failed and not (line and line.failed):
            worse.append(f"{one.case}: {one.verdict.value}, {one.stage}: {one.reason}")
        elif line and line.failed and one.verdict is Verdict.PASSED:
            better.append(f"{one.case}: passes; the table says {line.verdict}")
    return worse, better

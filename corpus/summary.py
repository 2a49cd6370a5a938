"""What `python -m corpus` prints of a check: verdicts, exceptions, agreement, bytes moved."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from corpus import exceptions, table
from corpus.table import FAILED, OMITTED, Line
from inductor_npu.ascend.execute import RunVerdict
from inductor_npu.ascend.hivm import Verdict

WORST = 30  # kernels that move most beyond the least


def summarise(console: Console, lines: Sequence[Line], programs: int, seconds: float) -> None:
    """Prints the summary; each distinct kernel counts once."""
    distinct = [line for line in lines if not line.same_as]
    kernels = [line for line in distinct if line.verdict not in (OMITTED, FAILED)]
    verdicts = Counter(line.verdict for line in distinct)
    words = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in reversed(table.BAD_TO_GOOD) if verdicts[verdict])
    say = [f"{programs} programs, {len(kernels)} distinct kernels in {seconds:.0f} s: {words}"]
    if reasons := ", ".join(f"{count} {category}" for category, count in exceptions.counts(distinct).items() if count):
        say.append(f"Not vector: {reasons}")
    say.append(_doubled(kernels))
    if run := [line for line in kernels if line.run]:
        outcomes = Counter(_outcome(line) for line in run)
        parts = ", ".join(f"{outcomes[verdict.value]} {verdict.value}" for verdict in RunVerdict)
        say.append(f"Executed: {outcomes[RunVerdict.AGREES.value] / len(run):.1%} of {len(run)} agree ({parts})")
    say.append(f"Against the lint's rules for wrong results: {sum(bool(line.lint) for line in kernels)}")
    vector = [line for line in kernels if line.verdict == Verdict.VECTOR.value]
    if known := [ratio for line in vector if (ratio := moved_to_least(line)) is not None]:
        say.append(f"Bytes moved to the least, of {len(known)} vector kernels: {geometric_mean(known):.3f} (geomean)")
    for sentence in say:
        console.print(sentence, highlight=False)
    worst = sorted(vector, key=lambda line: -(moved_to_least(line) or 0))[:WORST]
    if worst := [line for line in worst if (moved_to_least(line) or 0) >= 1.05]:
        console.print(_worst(worst))


def moved_to_least(line: Line) -> float | None:
    return float(line.moved_to_least) if line.moved_to_least else None


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers. Raises ZeroDivisionError if there are none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def _doubled(kernels: Sequence[Line]) -> str:
    counts = Counter(line.doubled for line in kernels)
    return f"Tiles with two buffers: {counts['yes']} of {counts['yes'] + counts['no']} compiled kernels"


def _outcome(line: Line) -> str:
    return next(verdict.value for verdict in RunVerdict if line.run.startswith(verdict.value))


def _worst(lines: Sequence[Line]) -> Table:
    """What moves most beyond the least, and what is accessed more than once."""
    shown = Table("Vector kernels that move most", "to the least", "accessed more than once", "operators")
    for line in lines:
        why = line.repeats or "transfers carry more than is asked for"
        shown.add_row(f"{line.program} {line.kernel}", line.moved_to_least, why, line.operators[:40])
    return shown

"""`python -m corpus.thresholds`: what the numbers that were chosen by trying do to the kernels of the corpus.

Each number of `THRESHOLDS` is replaced by others, and the hand-written programs and models of the corpus are collected
and checked anew. The table says for each what Ascend's compiler makes of all kernels.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from corpus.check import lines_of, program_names
from corpus.collecting import collect, collect_with
from corpus.summary import geometric_mean
from corpus.table import FAILED, FOLDER, OMITTED, Line
from inductor_npu.ascend.hivm import Verdict
from inductor_npu.providers import DEFAULT_TARGET
from tools.tables import read_table, write_table

_ANALYSIS = "inductor_npu.codegen.analysis"

# The numbers, and what each is compared with.
THRESHOLDS = {
    f"{_ANALYSIS}.strided_ranges:LARGEST_STEP": ("4", "16"),
    f"{_ANALYSIS}.strided_ranges:_MOST_WASTE": ("2", "8"),
    f"{_ANALYSIS}.subdomains:_MOST_SECTIONS": ("4", "25"),
    f"{_ANALYSIS}.subdomains:_MOST_OPERATORS": ("625", "10000"),
    f"{_ANALYSIS}.short_row_ends:_PART_FOR_A_ROW": ("6", "24"),
    f"{_ANALYSIS}.indexed_ranges:_TILE": ("1024", "16384"),
    "inductor_npu.codegen.scheduling.fusion:_FEWEST_ELEMENTS": ("64", "1024"),
    "inductor_npu.codegen.scheduling.npu_scheduling:_LARGE_LOOP": ("3277", "52428"),
    "inductor_npu.codegen.emit.scans:_MOST_BOUNDARIES": ("128", "8192"),
    "inductor_npu.codegen.index.solutions:_LONGEST": ("64", "1024"),
    "inductor_npu.tiling.plan:_LEAST_ROWS": ("1", "8"),
    "inductor_npu.tiling.plan:_MOST_DIMENSIONS": ("2", "4"),
    "inductor_npu.lowering.graph_passes.pooling.pool_gradients:_MOST_WINDOWS": ("4", "25"),
}


@dataclass(frozen=True)
class Trial:
    """What becomes of the programs where `constant` is `value` (empty: where nothing is replaced).

    `kernels` are the distinct ones, of which `vector` are vector code, `slow` element DMA or scalar code, and `refused`
    are not compiled. `cycles` is the geometric mean over all programs of the cycles of their kernels, and `characters`
    that of the length of their sources, as multiples of what they are where nothing is replaced; `better` and `worse`
    count programs with 2% fewer, or more, cycles.
    """

    constant: str
    value: str
    kernels: int
    vector: int
    slow: int
    refused: int
    cycles: str = "1"
    characters: str = "1"
    better: int = 0
    worse: int = 0


@dataclass(frozen=True)
class _Measured:
    lines: list[Line]
    characters: dict[str, int]

    def cycles(self) -> dict[str, int]:
        """The cycles of each program's kernels."""
        known = {(line.program, line.kernel): int(line.cycles) for line in self.lines if line.cycles}
        total: Counter[str] = Counter()
        for line in self.lines:
            program, _, number = line.same_as.rpartition(" ")
            total[line.program] += known.get((program, int(number)) if program else (line.program, line.kernel), 0)
        return total


def _measure(names: Sequence[str], target: str, jobs: int, constant: str) -> _Measured:
    if constant:
        programs = collect_with(names, target, jobs, constant)
    else:
        programs = collect(names, target, jobs, lambda: None)
    lines = lines_of(programs, target, jobs, lambda *progress: None)
    return _Measured(
        lines, {each.program: sum(len(k.source.text) for k in each.collection.kernels) for each in programs}
    )


def _trial(constant: str, value: str, found: _Measured, default: _Measured) -> Trial:
    distinct = [line for line in found.lines if not line.same_as and line.verdict not in (OMITTED, FAILED)]
    verdicts = Counter(line.verdict for line in distinct)
    refused = verdicts[Verdict.REFUSED.value]
    vector = verdicts[Verdict.VECTOR.value]
    was, now = default.cycles(), found.cycles()
    ratios = [now[name] / was[name] for name in was if was[name] and now[name]]
    longer = [found.characters[name] / size for name, size in default.characters.items() if size]
    return Trial(
        constant,
        value,
        len(distinct),
        vector,
        len(distinct) - vector - refused,
        refused,
        f"{geometric_mean(ratios):.4f}",
        f"{geometric_mean(longer):.4f}",
        sum(ratio < 0.98 for ratio in ratios),
        sum(ratio > 1.02 for ratio in ratios),
    )


def path_of(target: str) -> Path:
    """Where the accepted table of a chip is kept."""
    return FOLDER / f"thresholds-{target}.tsv"


def _table(trials: Sequence[Trial]) -> Table:
    table = Table("Constant", "value", "kernels", "vector", "slow", "refused", "cycles", "text", "better", "worse")
    for one in trials:
        name = one.constant.rpartition(":")[2]
        counts = map(str, (one.kernels, one.vector, one.slow, one.refused))
        table.add_row(name, one.value, *counts, one.cycles, one.characters, str(one.better), str(one.worse))
    return table


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    only: Annotated[str, typer.Option(help="Only constants whose name contains this.")] = "",
    jobs: Annotated[int, typer.Option(help="Programs, and kernels, at a time.")] = len(os.sched_getaffinity(0)),
    accept: Annotated[bool, typer.Option("--accept", help="Write the result to the table in git.")] = False,
) -> None:
    """Replaces each number that was chosen by trying, and says what Ascend's compiler makes of the kernels then."""
    console = Console()
    names = [name for name in program_names(False, target) if not name.startswith("operator/")]
    default = _measure(names, target, jobs, "")
    trials = [_trial("", "", default, default)]
    settings = [(name, value) for name, values in THRESHOLDS.items() if only in name for value in values]
    for name, value in track(settings, "trying", console=console):
        trials.append(_trial(name, value, _measure(names, target, jobs, f"{name}={value}"), default))
        console.print(_table(trials[-1:]))
    console.print(_table(trials))
    if accept:
        tried = {one.constant for one in trials}
        kept = [one for one in read_table(path_of(target), Trial) if one.constant not in tried]
        write_table(path_of(target), Trial, [*trials, *kept])


if __name__ == "__main__":
    typer.run(main)

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
from corpus.collecting import Collected, collect, collect_with
from corpus.summary import geometric_mean
from corpus.table import FAILED, FOLDER, OMITTED
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
    "inductor_npu.codegen.scheduling.combos:_LARGE_LOOP": ("3277", "52428"),
    "inductor_npu.codegen.emit.scans:_MOST_BOUNDARIES": ("128", "8192"),
    "inductor_npu.codegen.index.solutions:_LONGEST": ("64", "1024"),
    "inductor_npu.tiling.plan:_MOST_DIMENSIONS": ("2", "4"),
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
class _Checked:
    """One program: its kernels, each as what it is, its verdict and its cycles, and the characters of their sources."""

    kernels: list[tuple[str, str, int]]
    characters: int

    @property
    def cycles(self) -> int:
        """Cycles of all kernels."""
        return sum(cycles for _, _, cycles in self.kernels)


def _checked(programs: Sequence[Collected], target: str, jobs: int) -> dict[str, _Checked]:
    """What Ascend's compiler makes of each of `programs`."""
    lines = lines_of(programs, target, jobs, lambda *progress: None)
    first = {f"{line.program} {line.kernel}": line for line in lines}
    result = {}
    for program in programs:
        own = [first.get(line.same_as, line) for line in lines if line.program == program.program]
        kernels = [(one.key, one.verdict, int(one.cycles or 0)) for one in own if one.verdict not in (OMITTED, FAILED)]
        result[program.program] = _Checked(kernels, sum(len(text) for text in _texts(program)))
    return result


def _texts(program: Collected) -> list[str]:
    return [kernel.source.text for kernel in program.collection.kernels]


def _trial(constant: str, value: str, found: dict[str, _Checked], default: dict[str, _Checked]) -> Trial:
    distinct = {key: verdict for one in found.values() for key, verdict, _ in one.kernels}
    verdicts = Counter(distinct.values())
    refused, vector = verdicts[Verdict.REFUSED.value], verdicts[Verdict.VECTOR.value]
    ratios = [one.cycles / default[name].cycles for name, one in found.items() if one.cycles and default[name].cycles]
    longer = [one.characters / default[name].characters for name, one in found.items() if default[name].characters]
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
    programs = {program.program: program for program in collect(names, target, jobs, lambda: None)}
    default = _checked(list(programs.values()), target, jobs)
    trials = [_trial("", "", default, default)]
    settings = [(name, value) for name, values in THRESHOLDS.items() if only in name for value in values]
    for name, value in track(settings, "trying", console=console):
        collected = collect_with(names, target, jobs, f"{name}={value}")
        others = [program for program in collected if _texts(program) != _texts(programs[program.program])]
        trials.append(_trial(name, value, {**default, **_checked(others, target, jobs)}, default))
        console.print(_table(trials[-1:]))
    console.print(_table(trials))
    if accept:
        tried = {one.constant for one in trials}
        kept = [one for one in read_table(path_of(target), Trial) if one.constant not in tried]
        write_table(path_of(target), Trial, [*trials, *kept])


if __name__ == "__main__":
    typer.run(main)

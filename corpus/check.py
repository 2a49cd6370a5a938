"""Checks the corpus: collects its kernels, compiles each distinct one for a chip, and makes a line of each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat

from corpus import running, table
from corpus.collecting import Collected, Place, all_names, collect
from corpus.exceptions import reason_of
from corpus.table import Line
from inductor_npu.ascend.collect.source import without_name
from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.ascend.environment import find_environment
from inductor_npu.ascend.kernel import CollectedKernel
from inductor_npu.ascend.report.build import make_row
from inductor_npu.ascend.report.model import Row
from inductor_npu.target import NpuTarget, get_target

FEW = 100  # kernels that one process reads sooner than others start
# Programs that continuous integration checks: every one of them whose number this divides.
SAMPLE = 12
Progress = Callable[[str, int, int], None]  # (what is being done, done, of how many)


def program_names(sample: bool, target: str) -> list[str]:
    """All programs, or the fixed sample: hand-written ones, which do not move when torch's database does."""
    if not sample:
        return all_names(target)
    from corpus.programs import hand_written

    return [program.name for program in hand_written()[::SAMPLE]]


def check(names: Sequence[str], target: str, jobs: int, progress: Progress, run: bool = False) -> list[Line]:
    """The lines of the programs called `names`, for the chip `target`; with `run`, what Ascend's compiler understood of
    each kernel is executed too. Raises the errors of `find_environment`.
    """
    find_environment().check_target(target)  # before anything else is done
    programs = collect(names, target, jobs, _counter("collecting", len(names), progress))
    return lines_of(programs, target, jobs, progress, run)


def lines_of(
    programs: Sequence[Collected], target: str, jobs: int, progress: Progress, run: bool = False
) -> list[Line]:
    """As `check`, of programs that were collected before."""
    environment = find_environment()
    kernels = {
        (program.program, number): kernel
        for program in programs
        for number, kernel in enumerate(program.collection.kernels)
    }
    distinct = distinct_kernels(kernels)

    compiled = _counter("compiling", len(distinct), progress)
    compilations = compile_kernels(
        [kernels[place].source for place in distinct.values()],
        target,
        environment=environment,
        jobs=jobs,
        on_done=lambda index, compilation: compiled(),
    )
    described = _described([kernels[place] for place in distinct.values()], compilations, target, jobs)
    rows = {key: row for key, (row, _) in zip(distinct, described)}
    reasons = {key: reason for key, (_, reason) in zip(distinct, described)}
    if run:
        agreements = running.run(
            {place: kernels[place] for place in distinct.values()},
            dict(zip(distinct.values(), compilations)),
            target,
            environment,
            jobs,
            _counter("running", len(distinct), progress),
        )
        rows = {key: replace(row, agreement=agreements[distinct[key]]) for key, row in rows.items()}
    lines = []
    for program in programs:
        name, number = program.program, 0
        for number, kernel in enumerate(program.collection.kernels, 1):
            key = without_name(kernel.source)
            lines.append(table.line_of(name, number, key, rows[key], reasons[key], distinct[key]))
        for number, omission in enumerate(program.collection.omissions, number + 1):  # noqa: B020
            lines.append(table.omitted(name, number, omission.kernel, omission.reason))
        if program.error is not None:
            lines.append(table.failed(name, number + 1, program.error))
    return lines


def _counter(what: str, total: int, progress: Progress) -> Callable[[], None]:
    """To be called after each of `total` things that are done."""
    done = 0

    def one() -> None:
        nonlocal done
        done += 1
        progress(what, done, total)

    return one


def _described(
    kernels: Sequence[CollectedKernel], compilations: Sequence[Compilation], target: str, jobs: int
) -> list[tuple[Row, str]]:
    """What a report says of each kernel, and why it is not vector. Reading the final IR takes most of a check that
    finds all else in caches, and needs nothing of this process.
    """
    chip = get_target(target)
    if len(kernels) < FEW:
        return list(map(_describe, kernels, compilations, repeat(chip)))
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_describe, kernels, compilations, repeat(chip), chunksize=16))


def _describe(kernel: CollectedKernel, compilation: Compilation, chip: NpuTarget) -> tuple[Row, str]:
    row = make_row(kernel, compilation, chip)
    return row, reason_of(kernel, row, compilation.ttir)


def distinct_kernels(kernels: dict[Place, CollectedKernel]) -> dict[str, Place]:
    """Where each distinct kernel comes first, by what it is (its name excepted)."""
    found: dict[str, Place] = {}
    for place, kernel in kernels.items():
        found.setdefault(without_name(kernel.source), place)
    return found

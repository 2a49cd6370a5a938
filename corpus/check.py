"""Checks the corpus: collects its kernels, compiles each distinct one for a chip, makes a line of each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from corpus import table
from corpus.collecting import all_names, collect
from corpus.table import Line
from inductor_npu.ascend.collect.source import without_name
from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.ascend.environment import find_environment
from inductor_npu.ascend.kernel import CollectedKernel
from inductor_npu.ascend.report.build import make_row
from inductor_npu.ascend.report.model import Row
from inductor_npu.target import get_target

FEW = 100  # kernels that one process reads sooner than others start
# Programs that continuous integration checks: every one of them whose number this divides.
SAMPLE = 12
Place = tuple[str, int]  # a program, and the number of a kernel in the order of first launches, from 0
Progress = Callable[[str, int, int], None]  # (what is being done, done, of how many)


def program_names(sample: bool, target: str) -> list[str]:
    """All programs, or the fixed sample: hand-written ones, which do not move when torch's database does."""
    if not sample:
        return all_names(target)
    from corpus.programs import hand_written

    return [program.name for program in hand_written()[::SAMPLE]]


def check(names: Sequence[str], target: str, jobs: int, progress: Progress) -> list[Line]:
    """The lines of the programs called `names`, for the chip `target`. Raises the errors of `find_environment`."""
    environment = find_environment()
    environment.check_target(target)
    done = 0

    def collected_one() -> None:
        nonlocal done
        done += 1
        progress("collecting", done, len(names))

    programs = collect(names, target, jobs, collected_one)
    kernels = {
        (program.program, number): kernel
        for program in programs
        for number, kernel in enumerate(program.collection.kernels)
    }
    distinct = _distinct(kernels)

    compiled = 0

    def compiled_one(_index: int, _compilation: object) -> None:
        nonlocal compiled
        compiled += 1
        progress("compiling", compiled, len(distinct))

    compilations = compile_kernels(
        [kernels[place].source for place in distinct.values()],
        target,
        environment=environment,
        jobs=jobs,
        on_done=compiled_one,
    )
    rows = dict(zip(distinct, _rows([kernels[place] for place in distinct.values()], compilations, target, jobs)))
    lines = []
    for program in programs:
        name, number = program.program, 0
        for number, kernel in enumerate(program.collection.kernels, 1):
            key = without_name(kernel.source)
            lines.append(table.line_of(name, number, rows[key], distinct[key]))
        for number, omission in enumerate(program.collection.omissions, number + 1):  # noqa: B020
            lines.append(table.omitted(name, number, omission.kernel, omission.reason))
        if program.error is not None:
            lines.append(table.failed(name, number + 1, program.error))
    return lines


def _rows(kernels: Sequence[CollectedKernel], compilations: Sequence[Compilation], target: str, jobs: int) -> list[Row]:
    """What a report says of each kernel. Reading the final IR takes most of a check that finds all else in caches, and
    needs nothing of this process.
    """
    chip = get_target(target)
    if len(kernels) < FEW:
        return list(map(make_row, kernels, compilations, repeat(chip)))
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(make_row, kernels, compilations, repeat(chip), chunksize=16))


def _distinct(kernels: dict[Place, CollectedKernel]) -> dict[str, Place]:
    """Where each distinct kernel comes first, by what it is (its name excepted)."""
    found: dict[str, Place] = {}
    for place, kernel in kernels.items():
        found.setdefault(without_name(kernel.source), place)
    return found

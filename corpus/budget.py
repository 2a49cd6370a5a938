"""`python -m corpus.budget`: does the embedded NPU's check of the Unified Buffer agree with Ascend's compiler?

Each kernel is compiled with several block sizes around the limit, and both say whether it fits.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from corpus.collecting import collect
from inductor_npu.ascend import hivm
from inductor_npu.ascend.collect.source import without_name
from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.ascend.environment import find_environment
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.simulator.triton_backend.ttir import budget, parser
from inductor_npu.simulator.triton_backend.ttir.forms import DOTS, Forms
from inductor_npu.simulator.triton_backend.ttir.ir import Function
from inductor_npu.simulator.triton_backend.ttir.passes import simplify
from inductor_npu.target import NpuTarget, get_target

# Every one of so many operators, and then every one of so many kernels: some 450 of all families.
EVERY_OPERATOR = 3
EVERY_KERNEL = 2
# Block sizes are chosen so that our estimate lies between these shares of the buffer, a factor of two apart.
LEAST_SHARE, LARGEST_SHARE = 1 / 8, 4
LEAST_AGREEMENT = 0.95


@dataclass(frozen=True)
class Trial:
    """One kernel with one choice of blocks: what each of the two checks says, in bytes, and whether it fits."""

    blocks: str
    ours: int
    theirs: int
    fits_ours: bool
    fits_theirs: bool

    @property
    def agrees(self) -> bool:
        return self.fits_ours == self.fits_theirs


@dataclass(frozen=True)
class Kernel:
    """A kernel of the corpus: `refusals` are the reasons for which Ascend's compiler takes it with no blocks at all."""

    program: str
    number: int
    kind: str
    verdict: str
    trials: tuple[Trial, ...]
    refusals: tuple[str, ...]


def sample_programs() -> list[str]:
    """All models and hand-written programs, and a fixed part of the operators."""
    from corpus.programs import all_programs

    names = [program.name for program in all_programs()]
    operators = [name for name in names if name.startswith("operator/")]
    return [name for name in names if name not in set(operators)] + operators[::EVERY_OPERATOR]


def kernels_of(programs: Sequence[str], target: str, jobs: int, every: int) -> list[tuple[str, int, KernelSource]]:
    """Every `every`th distinct kernel of `programs` that has blocks: program, number there, source."""
    known: set[str] = set()
    found = []
    for collected in collect(programs, target, jobs, lambda: None):
        for number, kernel in enumerate(collected.collection.kernels):
            key = without_name(kernel.source)
            if key not in known and block_names(kernel.source):
                known.add(key)
                found.append((collected.program, number, kernel.source))
    return found[::every]


def block_names(source: KernelSource) -> list[str]:
    """The block sizes that may be chosen; in the order in which they are doubled."""
    names = [name for name, value in source.constants.items() if "BLOCK" in name and isinstance(value, int)]
    return sorted(names, key=lambda name: (not name.startswith("X"), name))


def scaled(source: KernelSource, steps: int) -> KernelSource | None:
    """`source` with blocks whose product is 2**`steps` times as large, each of them in turn; None if none is left to
    halve.
    """
    blocks = {name: int(source.constants[name] or 1) for name in block_names(source)}
    names = list(blocks)
    for turn in range(abs(steps)):
        possible = [name for name in names if steps > 0 or blocks[name] > 1]
        if not possible:
            return None
        name = possible[turn % len(possible)]
        blocks[name] = blocks[name] * 2 if steps > 0 else blocks[name] // 2
    return dataclasses.replace(source, constants={**source.constants, **blocks})


def compare(kernels: Sequence[tuple[str, int, KernelSource]], target: str, jobs: int) -> list[Kernel]:
    """Compiles each kernel with the blocks it came with, then with those around the buffer's size."""
    chip = get_target(target)
    environment = find_environment()
    first = compile_kernels([source for _, _, source in kernels], target, environment=environment, jobs=jobs)
    choices = [_choices(source, compilation, chip) for (_, _, source), compilation in zip(kernels, first, strict=True)]
    flat = [source for choice in choices for source in choice]
    compiled = iter(compile_kernels(flat, target, environment=environment, jobs=jobs))
    found = []
    for (program, number, _), start, choice in zip(kernels, first, choices, strict=True):
        own = [(source, next(compiled)) for source in choice]
        found.append(_kernel(program, number, start, own, chip))
    return found


def _choices(source: KernelSource, compilation: Compilation, chip: NpuTarget) -> list[KernelSource]:
    """`source` with the blocks for which our estimate, extrapolated, lies around the buffer's size."""
    if compilation.ttir is None:
        return []
    share = budget.footprint(_function(compilation.ttir), chip).unified_buffer / chip.unified_buffer
    if share == 0:
        return []
    lowest = math.ceil(math.log2(LEAST_SHARE / share))
    steps = range(lowest, lowest + round(math.log2(LARGEST_SHARE / LEAST_SHARE)))
    return [candidate for step in steps if (candidate := scaled(source, step)) is not None]


def _kernel(
    program: str, number: int, start: Compilation, own: list[tuple[KernelSource, Compilation]], chip: NpuTarget
) -> Kernel:
    trials, refusals = [], [] if start.ttir is not None else [start.message]
    for source, compilation in own:
        if compilation.ttir is None or (compilation.hivm is None and compilation.required_bits is None):
            refusals.append(compilation.message)
            continue
        if "cc overflow" in compilation.message or "cbuf overflow" in compilation.message:
            continue  # of L0C or L1
        ours = budget.footprint(_function(compilation.ttir), chip).unified_buffer
        theirs = (compilation.required_bits or 0) // 8
        if compilation.hivm is not None:
            theirs = hivm.analyse(compilation.hivm, chip).ub_bytes
        blocks = " ".join(f"{name}={source.constants[name]}" for name in block_names(source))
        trials.append(Trial(blocks, ours, theirs, ours <= chip.unified_buffer, compilation.hivm is not None))
    kind = kind_of(_function(start.ttir)) if start.ttir else ""
    verdict = hivm.analyse(start.hivm, chip).verdict.value if start.hivm else "refused"
    return Kernel(program, number, kind, verdict, tuple(trials), tuple(refusals))


def _function(ttir: str) -> Function:
    module = parser.parse(ttir)
    simplify(module)
    return module.kernel


def kind_of(kernel: Function) -> str:
    """What kind of kernel it is, by the operation that is hardest to place."""
    names = {op.name for op in kernel.body.walk()}
    if names & DOTS:
        return "dot"
    for kind in ("scan", "reduce", "trans", "sort"):
        if f"tt.{kind}" in names:
            return kind
    forms = Forms(kernel)
    addresses = [forms.index_of(op.operands[0]) for op in kernel.body.walk() if op.name in ("tt.load", "tt.store")]
    if any(index.sources for index in addresses):
        return "gather"
    if any(None in index.steps for index in addresses):
        return "divided index"
    return "transposed" if any(index.steps[-1:] not in ((), (0,), (1,)) for index in addresses) else "pointwise"


def agreement(kernels: Iterable[Kernel]) -> float:
    """The share of trials in which both say the same."""
    trials = [trial for kernel in kernels for trial in kernel.trials]
    return sum(trial.agrees for trial in trials) / len(trials)


# The table in git and the summary


def path_of(target: str) -> Path:
    return Path(__file__).parent / "tables" / f"budget-{target}.tsv"


def write(target: str, kernels: Iterable[Kernel]) -> None:
    """One line a kernel: how many of its trials agree, and the ones that do not."""
    path_of(target).parent.mkdir(exist_ok=True)
    with path_of(target).open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("program", "kernel", "kind", "verdict", "agree", "of", "ratio", "disagree"))
        for kernel in kernels:
            agree = sum(trial.agrees for trial in kernel.trials)
            words = "; ".join(_words(trial) for trial in kernel.trials if not trial.agrees)
            words = words or ("; ".join(dict.fromkeys(kernel.refusals)) if not kernel.trials else "")
            row = (kernel.program, kernel.number, kernel.kind, kernel.verdict, agree, len(kernel.trials))
            writer.writerow((*row, _ratio_text(kernel), " ".join(words.split())[:160]))


def _words(trial: Trial) -> str:
    return f"{trial.blocks}: ours {trial.ours}, theirs {trial.theirs}"


def _ratio(kernel: Kernel) -> float | None:
    """Ours to theirs, where theirs is the least that they can do: what they required when it did not fit."""
    refused = [trial for trial in kernel.trials if not trial.fits_theirs and trial.theirs]
    return refused[-1].ours / refused[-1].theirs if refused else None


def _ratio_text(kernel: Kernel) -> str:
    ratio = _ratio(kernel)
    return "" if ratio is None else f"{ratio:.2f}"


def summarise(console: Console, kernels: Sequence[Kernel]) -> None:
    """Prints the agreement, the slack by kind, the refusals that are not counted, and the worst disagreements."""
    trials = [trial for kernel in kernels for trial in kernel.trials]
    counts = Counter((trial.fits_ours, trial.fits_theirs) for trial in trials)
    tried = sum(bool(kernel.trials) for kernel in kernels)
    console.print(f"{tried} kernels, {len(trials)} choices of blocks: {agreement(kernels):.1%} agree", highlight=False)
    console.print(f"  both fit {counts[True, True]}, both do not {counts[False, False]}", highlight=False)
    console.print(f"  we accept what Ascend refuses {counts[True, False]}", highlight=False)
    console.print(f"  we refuse what Ascend accepts {counts[False, True]}", highlight=False)
    refusals = sum(len(kernel.refusals) for kernel in kernels)
    console.print(f"  refused for other reasons, not counted: {refusals}", highlight=False)
    for title, key in (("kind", lambda kernel: kernel.kind), ("verdict", lambda kernel: kernel.verdict)):
        table = Table(title, "kernels", "choices", "agree", "ours / theirs: 5%", "median", "95%")
        for name in sorted({key(kernel) for kernel in kernels if kernel.trials}):
            own = [kernel for kernel in kernels if key(kernel) == name and kernel.trials]
            ratios = sorted(ratio for kernel in own if (ratio := _ratio(kernel)) is not None)
            numbers = ["", "", ""]
            if ratios:
                spread = [ratios[int(0.05 * len(ratios))], statistics.median(ratios), ratios[int(0.95 * len(ratios))]]
                numbers = [f"{ratio:.2f}" for ratio in spread]
            table.add_row(name, str(len(own)), str(sum(len(k.trials) for k in own)), f"{agreement(own):.1%}", *numbers)
        console.print(table)
    worst = sorted(
        (kernel for kernel in kernels if not all(trial.agrees for trial in kernel.trials)),
        key=lambda kernel: -max(abs(math.log(max(t.ours, 1) / max(t.theirs, 1))) for t in kernel.trials),
    )
    for kernel in worst[:20]:
        words = "; ".join(_words(trial) for trial in kernel.trials if not trial.agrees)
        console.print(f"{kernel.program} [{kernel.number}] {kernel.kind}: {words}", highlight=False, markup=False)


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    every: Annotated[int, typer.Option(help="Every one of so many kernels.")] = EVERY_KERNEL,
    jobs: Annotated[int, typer.Option(help="Programs, and kernels, at a time.")] = 2,
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Compares the two checks of the Unified Buffer. Exit status 1 if they agree on less than LEAST_AGREEMENT (95%)."""
    console = Console()
    kernels = compare(kernels_of(sample_programs(), target, jobs, every), target, jobs)
    summarise(console, kernels)
    if accept:
        write(target, kernels)
        console.print(f"Written: {path_of(target)}")
    if agreement(kernels) < LEAST_AGREEMENT:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

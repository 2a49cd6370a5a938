"""`python -m corpus.traffic`: how many kernels each program has, and how many bytes of device memory they move.

Beside the programs of the corpus, the models of models/zoo.py are counted in training, in a size at which tensors
and not constants are what is moved. The bytes are those of the comments beside launches (`inductor_npu.explain`): each
element of each operand of a kernel once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from corpus.check import program_names
from corpus.collecting import in_processes, program_called
from corpus.table import FOLDER
from inductor_npu.providers import DEFAULT_TARGET
from tools.tables import one_line, read_table, write_table

TRAINING = "step/"  # before the names of the models
_LONGEST = 160


@dataclass(frozen=True)
class Traffic:
    """What the graphs of one program do, each graph once. `kernels` are the distinct ones; `launches` count each as
    often as it is called, and `bytes` is what these launches read and write. `error`: why the program ended early.
    """

    program: str
    kernels: int
    launches: int
    bytes: int
    error: str = ""


def names_of(target: str) -> list[str]:
    """The models in training, and all programs of the corpus."""
    from models.zoo import MODELS

    return [*(TRAINING + name for name in MODELS), *program_names(False, target)]


def traffic(name: str) -> Traffic:
    """Runs one program in this process."""
    from inductor_npu import record_explanation
    from inductor_npu.ascend.collect.afresh import compiled_afresh

    run = _training(name.removeprefix(TRAINING)) if name.startswith(TRAINING) else program_called(name)
    error = ""
    with compiled_afresh(), record_explanation() as recorded:
        try:
            run()
        except Exception as failure:  # noqa: BLE001 - it is the program's, and the table says it
            error = one_line(f"{type(failure).__name__}: {failure}", _LONGEST)
    found = recorded.explanation
    launches = sum(kernel.launches for kernel in found.kernels)
    return Traffic(name, len(found.kernels), launches, found.bytes_read + found.bytes_written, error)


def _training(name: str) -> Callable[[], None]:
    """Forward and backward of a model."""
    import torch

    from corpus.programs.program import differentiate
    from models.zoo import SMALL, build

    def run() -> None:
        model, inputs, call = build(name, SMALL)
        model = model.to("npu").train()
        differentiate(call(torch.compile(model), *(tensor.to("npu") for tensor in inputs)).float().mean())

    return run


def path_of(target: str) -> Path:
    """Where the accepted table of a chip is kept."""
    return FOLDER / f"traffic-{target}.tsv"


def read(path: Path) -> dict[str, Traffic]:
    """The table of that path by program; empty if there is none yet."""
    return {one.program: one for one in read_table(path, Traffic)}


def differences(before: dict[str, Traffic], after: Iterable[Traffic]) -> list[tuple[Traffic, Traffic]]:
    """The programs of both, before and after, which do something else now; those that move more bytes first."""
    pairs = [(before[one.program], one) for one in after if one.program in before]
    return sorted((pair for pair in pairs if pair[0] != pair[1]), key=lambda pair: pair[0].bytes - pair[1].bytes)


def summarise(console: Console, before: dict[str, Traffic], after: Sequence[Traffic]) -> None:
    """Prints the models in training, the sum of all other programs, and each program that differs, before and after."""
    table = Table("Program", "kernels", "launches", "bytes")
    for one in after:
        if one.program.startswith(TRAINING):
            table.add_row(one.program, *_both(before.get(one.program, one), one))
    others = [one for one in after if not one.program.startswith(TRAINING)]
    known = [before.get(one.program, one) for one in others]
    table.add_row(f"corpus, {len(others)} programs", *_both(_total(known), _total(others)))
    console.print(table)
    changed = Table("Program that differs", "kernels", "launches", "bytes")
    for old, new in differences(before, after):
        changed.add_row(new.program, *_both(old, new))
    if changed.row_count:
        console.print(changed)


def _total(found: Sequence[Traffic]) -> Traffic:
    return Traffic("", *(sum(getattr(one, name) for one in found) for name in ("kernels", "launches", "bytes")))


def _both(old: Traffic, new: Traffic) -> list[str]:
    pairs = [(getattr(old, name), getattr(new, name)) for name in ("kernels", "launches", "bytes")]
    return [f"{one:,}, {other:,}" for one, other in pairs]


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    only: Annotated[str, typer.Option(help="Only programs whose name begins so.")] = "",
    every: Annotated[int, typer.Option(min=1, help="Only every so manyth of them.")] = 1,
    jobs: Annotated[int, typer.Option(help="Programs at a time.")] = len(os.sched_getaffinity(0)),
    before: Annotated[Path | None, typer.Option(help="Another table than the one in git to compare with.")] = None,
    write: Annotated[Path | None, typer.Option(help="Where to write the result.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Counts the kernels of each program and what they move, and says what differs from the table in git."""
    console = Console()
    names = [name for name in names_of(target) if name.startswith(only)][::every]
    found = track(in_processes(traffic, names, target, jobs), "counting", total=len(names), console=console)
    by_name = {one.program: one for one in found}
    after = [by_name[name] for name in names]
    summarise(console, read(before or path_of(target)), after)
    for path in (write, path_of(target) if accept else None):
        if path is not None:
            write_table(path, Traffic, after)


if __name__ == "__main__":
    typer.run(main)

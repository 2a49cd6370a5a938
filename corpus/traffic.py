"""`python -m corpus.traffic`: how many kernels a training step of each model of models/zoo.py has, and how many bytes
of device memory they move, in a size at which tensors and not constants are what is moved.

The bytes are those of the comments beside launches (`inductor_npu.explain`): each element of each operand of a kernel
once. CI compares all rows with the table in git.
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

from corpus.collecting import in_processes
from corpus.table import FOLDER
from inductor_npu.providers import DEFAULT_TARGET
from tools.tables import one_line, read_table, write_table

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


def names() -> list[str]:
    """The models."""
    from models.zoo import MODELS

    return list(MODELS)


def traffic(name: str) -> Traffic:
    """A training step of the model `name`, in this process."""
    from inductor_npu import record_explanation
    from inductor_npu.ascend.collect.afresh import compiled_afresh

    run = _training(name)
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
    """Prints each model, before and after."""
    table = Table("Model", "kernels", "launches", "bytes", "")
    for one in after:
        old = before.get(one.program, one)
        table.add_row(one.program, *_both(old, one), "" if old == one else "differs")
    console.print(table)


def _both(old: Traffic, new: Traffic) -> list[str]:
    pairs = [(getattr(old, name), getattr(new, name)) for name in ("kernels", "launches", "bytes")]
    return [f"{one:,}, {other:,}" for one, other in pairs]


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    only: Annotated[str, typer.Option(help="Only models whose name begins so.")] = "",
    jobs: Annotated[int, typer.Option(help="Models at a time.")] = len(os.sched_getaffinity(0)),
    before: Annotated[Path | None, typer.Option(help="Another table than the one in git to compare with.")] = None,
    write: Annotated[Path | None, typer.Option(help="Where to write the result.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Counts kernels and bytes of training steps. Exit status 1 where the table in git has others."""
    console = Console()
    chosen = [name for name in names() if name.startswith(only)]
    found = track(in_processes(traffic, chosen, target, jobs), "counting", total=len(chosen), console=console)
    by_name = {one.program: one for one in found}
    after = [by_name[name] for name in chosen]
    known = read(before or path_of(target))
    summarise(console, known, after)
    for path in (write, path_of(target) if accept else None):
        if path is not None:
            write_table(path, Traffic, after)
    if not accept and differences(known, after):
        console.print("Look at what changed, then: python -m corpus.traffic --accept")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

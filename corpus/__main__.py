"""`python -m corpus`: checks the corpus and compares it with the table in git."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer
from rich.console import Console

from corpus import exceptions, table
from corpus.check import check, program_names
from corpus.summary import summarise
from inductor_npu.errors import NpuError
from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.support import terminal


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    sample: Annotated[bool, typer.Option("--sample", help="Only the programs that CI checks.")] = False,
    only: Annotated[str, typer.Option(help="Only programs whose name begins so.")] = "",
    jobs: Annotated[int, typer.Option(help="Programs, and kernels, at a time.")] = len(os.sched_getaffinity(0)),
    run: Annotated[
        bool, typer.Option("--run", help="Also run what Ascend's compiler understood; goes on where it was ended.")
    ] = False,
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Checks each kernel of the corpus with Ascend's compiler. Exit status 1 if a verdict is worse than the table's."""
    console = Console()
    names = [name for name in program_names(sample, target) if name.startswith(only)]
    start = time.perf_counter()
    try:
        with terminal.progress(console) as bars:
            tasks = {
                what: bars.add_task(what, total=None)
                for what in ("collecting", "compiling", *(["running"] if run else []))
            }
            lines = check(
                names,
                target,
                jobs,
                lambda what, done, total: bars.update(tasks[what], completed=done, total=total),
                run,
            )
    except NpuError as error:
        console.print(f"[red]{error}")
        raise typer.Exit(2) from error
    accepted = table.read(target)
    lines = table.with_known_runs(lines, accepted)
    summarise(console, lines, len(names), time.perf_counter() - start)
    worse = table.worse(accepted, lines)
    for line in worse:
        console.print(f"[red]worse:[/] {line}", highlight=False)
    if accept:
        if len(names) != len(program_names(False, target)):
            console.print("[red]Only the whole corpus can be accepted.")
            raise typer.Exit(2)
        table.write(target, lines)
        exceptions.write(target, lines)
        console.print(f"Written: {table.path_of(target)}, {exceptions.path_of(target)}")
    elif worse:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

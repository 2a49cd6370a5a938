"""`python -m world`: compiles other people's programs, and writes docs/world.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import TextColumn

from inductor_npu.support import terminal
from tests.part import Part
from tools import workers
from world import libraries, tasks
from world.case import place
from world.outcomes import Outcome, OutcomeFile

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Library = Annotated[str, typer.Option(help="Only these, such as timm,own.")]
Only = Annotated[str, typer.Option(help="Only cases in whose names this pattern is found.")]
Shard = Annotated[str, typer.Option(help="K/N: share K of N, by the cases' names.")]
Jobs = Annotated[int, typer.Option(help="Processes.")]
Limit = Annotated[float, typer.Option(help="Seconds that one case may take.")]
Seconds = Annotated[float | None, typer.Option(help="Time for all of it; what is left is not run.")]
Out = Annotated[Path, typer.Option(help="The folder where outcomes are kept; a sweep goes on where it was ended.")]
Stock = Annotated[bool, typer.Option(help="Stock Inductor on the CPU beside it.")]
Build = Annotated[bool, typer.Option("--build", help="Only build each case, and run it in eager on the CPU.")]
Again = Annotated[bool, typer.Option("--again", help="Also run again what failed before.")]
Afresh = Annotated[bool, typer.Option("--afresh", help="Run again what is known.")]
Listed = Annotated[bool, typer.Option("--list", help="Print the names of the cases.")]
CORES = len(os.sched_getaffinity(0))
FOLDER = Path("build/world")
MODELS = ",".join(libraries.MODELS)


@app.callback()
def main() -> None:
    """Other people's programs, compiled for npu and held against eager."""


@app.command()
def models(
    library: Library = MODELS,
    only: Only = "",
    shard: Shard = "1/1",
    jobs: Jobs = CORES,
    limit: Limit = 150,
    seconds: Seconds = None,
    out: Out = FOLDER,
    stock: Stock = True,
    build: Build = False,
    again: Again = False,
    afresh: Afresh = False,
    listed: Listed = False,
) -> None:
    """Models of libraries, and networks of our own. Exit status 1 if a case fails."""
    run_part(
        "models",
        library.split(","),
        only,
        shard,
        Limits(jobs, limit, seconds),
        out,
        sides_of(build, stock),
        again,
        afresh,
        listed,
    )


@app.command()
def kernelbench(
    only: Only = "",
    shard: Shard = "1/1",
    jobs: Jobs = CORES,
    limit: Limit = 150,
    seconds: Seconds = None,
    out: Out = FOLDER,
    stock: Stock = True,
    build: Build = False,
    again: Again = False,
    afresh: Afresh = False,
    listed: Listed = False,
) -> None:
    """KernelBench's problems, scaled down for the embedded NPU. Exit status 1 if a case fails."""
    run_part(
        "kernelbench",
        ["kernelbench"],
        only,
        shard,
        Limits(jobs, limit, seconds),
        out,
        sides_of(build, stock),
        again,
        afresh,
        listed,
    )


def sides_of(build: bool, stock: bool) -> str:
    """On which sides cases run (world/running.py)."""
    return "cpu" if build else "all" if stock else "npu"


def run_part(
    part: str,
    chosen: Sequence[str],
    only: str,
    shard: str,
    limits: Limits,
    out: Path,
    sides: str,
    again: bool,
    afresh: bool,
    listed: bool,
) -> None:
    """Runs or lists the cases of the libraries `chosen`. Raises typer.Exit if one fails."""
    console = Console()
    names = in_share([name for name in _names(console, chosen) if re.search(only, name)], shard)
    if listed:
        print(*sorted(names), sep="\n")
        return
    path = out / f"{'built-' if sides == 'cpu' else ''}{part}-{shard.replace('/', '-of-')}.jsonl"
    known = sweep(console, names, path, sides, limits, again, afresh)
    if summarise(console, [known[name] for name in names if name in known]):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Limits:
    """Processes, seconds of one `case`, and of the whole sweep."""

    jobs: int
    case: float
    seconds: float | None = None


def _names(console: Console, chosen: Sequence[str]) -> list[str]:
    names: list[str] = []
    for library in chosen:
        if library not in libraries.LIBRARIES:
            raise typer.BadParameter(f"{library} is none of {', '.join(libraries.LIBRARIES)}")
        if package := libraries.missing(library):
            console.print(f"[yellow]{library} is left out:[/] {package} is not installed (make world installs it)")
        else:
            names += libraries.case_names(library)
    return names


def in_share(names: Sequence[str], shard: str) -> list[str]:
    """The names of share K/N, in an order by which each part of a sweep has all kinds. Raises ValueError."""
    part = Part.parse(shard)
    return sorted((name for name in names if part.holds(name)), key=lambda name: place(f"order of {name}", 1 << 30))


def sweep(
    console: Console,
    names: Collection[str],
    path: Path,
    sides: str,
    limits: Limits,
    again: bool = False,
    afresh: bool = False,
) -> dict[str, Outcome]:
    """Runs the cases that the file of outcomes does not have; all outcomes that are known afterwards."""
    end = None if limits.seconds is None else time.monotonic() + limits.seconds
    file = OutcomeFile(path)
    if afresh or again:
        file.forget(lambda outcome: afresh or outcome.failed)
    waiting = [tasks.Task(name, sides) for name in names if name not in file.known]
    if not waiting:
        return file.known
    processes = tasks.processes(path.parent.absolute() / "stock", compiles=sides != "cpu")
    if sides != "cpu":  # what is built once, before many want it
        for module in ("inductor_npu.device", "world.tasks"):
            subprocess.run([sys.executable, "-m", module], check=True, env={**os.environ, **processes.settings})
    failed = 0
    with terminal.progress(console, TextColumn("{task.fields[failed]} failed")) as bars:
        bar = bars.add_task(path.stem, total=len(waiting), failed=0)

        def keep(task: tasks.Task, outcome: Outcome) -> None:
            nonlocal failed
            file.add(outcome)
            failed += outcome.failed
            bars.update(bar, failed=failed)
            if outcome.failed:
                bars.console.print(one_line_of(outcome), highlight=False, markup=False, soft_wrap=True)

        def advance(task: tasks.Task) -> None:
            bars.advance(bar)

        workers.run(waiting, processes, min(limits.jobs, len(waiting)), limits.case, keep, advance, deadline=end)
    return file.known


def one_line_of(outcome: Outcome) -> str:
    return f"{outcome.case}: {outcome.verdict.value}, {outcome.stage}: {outcome.reason}"


def summarise(console: Console, outcomes: Sequence[Outcome]) -> int:
    """Prints how many cases of each library came out how; returns how many failed."""
    for library in dict.fromkeys(outcome.library for outcome in outcomes):
        verdicts = Counter(outcome.verdict.value for outcome in outcomes if outcome.library == library)
        console.print(f"{library}: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.most_common())}")
    return sum(outcome.failed for outcome in outcomes)


if __name__ == "__main__":
    app()

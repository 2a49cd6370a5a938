"""`python -m world`: compiles other people's programs, and writes docs/world.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from world import libraries, passes, share, table
from world.outcomes import OutcomeFile, read
from world.sweeping import Chosen, Limits, summarise, sweep

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Only = Annotated[str, typer.Option(help="Only cases in whose names this pattern is found.")]
Shard = Annotated[str, typer.Option(help="K/N: share K of N, by the cases' names.")]
Jobs = Annotated[int, typer.Option(help="Processes.")]
Limit = Annotated[float, typer.Option(help="Seconds that one case may take.")]
Seconds = Annotated[float | None, typer.Option(help="Time for all of it; what is left is not run.")]
Out = Annotated[Path, typer.Option(help="The folder where outcomes are kept; a sweep goes on where it was ended.")]
Stock = Annotated[bool, typer.Option(help="Stock Inductor on the CPU beside it.")]
Build = Annotated[bool, typer.Option("--build", help="Only build each case, and run it in eager on the CPU.")]
Again = Annotated[bool, typer.Option("--again", help="Also run again what failed before.")]
Listed = Annotated[bool, typer.Option("--list", help="Print the names of the cases.")]

CORES = len(os.sched_getaffinity(0))
FOLDER = Path("build/world")


@dataclass(frozen=True)
class Part:
    """A part of the world: its libraries, the sides on which its cases run (world/running.py), and what it is."""

    libraries: Sequence[str]
    sides: str
    help: str


PARTS = {
    "models": Part(libraries.MODELS, "all", "Models of libraries, and networks of our own."),
    "kernelbench": Part(["kernelbench"], "all", "KernelBench's problems, scaled down."),
    "inductor": Part(["inductor"], "npu", "PyTorch's own tests of Inductor, on npu."),
    "passes": Part(libraries.MODELS, "passes", "What each optional graph pass does for the models."),
}


def _command(name: str, part: Part) -> None:
    """Makes `python -m world name`."""

    def run(
        only: Only = "",
        shard: Shard = "1/1",
        jobs: Jobs = CORES,
        limit: Limit = 150,
        seconds: Seconds = None,
        out: Out = FOLDER,
        stock: Stock = True,
        build: Build = False,
        again: Again = False,
        listed: Listed = False,
    ) -> None:
        console, sides = Console(), part.sides
        if (build or not stock) and sides != "all":
            raise typer.BadParameter(f"{name} runs on one side only: neither --build nor --no-stock applies")
        sides = "cpu" if build else sides if stock else "npu"
        try:
            names = Chosen(part.libraries, only, shard).names(console)
        except (FileNotFoundError, ValueError) as error:
            console.print(str(error), highlight=False, soft_wrap=True)
            raise typer.Exit(2) from error
        if listed:
            print(*sorted(names), sep="\n")
            return
        file = OutcomeFile(out / f"{'built-' if build else ''}{name}-{shard.replace('/', '-of-')}.jsonl")
        if again:
            file.forget(lambda outcome: outcome.failed)
        if sides == "passes":
            console.print(passes.table(sweep(console, names, file, sides, Limits(jobs, limit, seconds))))
        else:
            _finish(console, names, file, sides, Limits(jobs, limit, seconds))

    app.command(name, help=f"{part.help} Exit status 1 if a case fails that the table does not name.")(run)


for _name, _part in PARTS.items():
    _command(_name, _part)


def _finish(console: Console, names: Sequence[str], file: OutcomeFile, sides: str, limits: Limits) -> None:
    """Runs the cases, says what came out. Raises typer.Exit if a case fails that the table does not name."""
    outcomes = sweep(console, names, file, sides, limits)
    worse, better = share.news(outcomes, table.read())
    for line in (*better, *(f"worse than the table: {one}" for one in worse)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    summarise(console, outcomes, len(names))
    if worse:
        raise typer.Exit(1)


@app.command("share")
def share_of_commit(
    commit: Annotated[str, typer.Argument(help="The commit's hash.")],
    models: Annotated[int, typer.Option(help="How many models.")] = 20,
    problems: Annotated[int, typer.Option(help="How many of KernelBench's problems, if they are on this disk.")] = 10,
    jobs: Jobs = CORES,
    limit: Limit = 200,
    seconds: Seconds = 240,
    out: Out = FOLDER / "share",
) -> None:
    """The cases that a commit's hash names. Exit status 1 if one fails that the table does not name."""
    console, known = Console(), table.read()
    names = share.chosen(Chosen(libraries.MODELS).names(console), known, commit, models)
    try:
        names += share.chosen(Chosen(["kernelbench"]).names(console), known, commit, problems)
    except FileNotFoundError:
        console.print("KernelBench is not on this disk: models alone")
    file = OutcomeFile(out / f"{commit}.jsonl")
    file.forget(lambda outcome: True)
    _finish(console, names, file, "npu", Limits(jobs, limit, seconds))


@app.command("table")
def write_table(
    files: Annotated[list[Path] | None, typer.Argument(help="Files of outcomes; else those of build/world.")] = None,
) -> None:
    """Writes docs/world.md and world/tables from outcomes."""
    paths = files or [
        path for path in sorted(FOLDER.glob("*.jsonl")) if not path.name.startswith(("built-", "passes-"))
    ]
    outcomes = read(paths)
    command = "python -m world models; python -m world kernelbench; python -m world inductor"
    table.write(outcomes, command, datetime.date.today().isoformat(), _versions())
    Console().print(f"{len(outcomes)} cases: {table.PAGE.name}, {table.CASES.name}")


def _versions() -> list[str]:
    """Of inductor-npu, as a commit, and of what is installed of the libraries."""
    packages = ["torch", "triton", *(package for _, package in libraries.LIBRARIES.values() if package != "torch")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    installed = {name.replace("-", "_") for name in packages}
    found = [
        f"{each.name} {each.version}"
        for each in importlib.metadata.distributions()
        if each.name and each.name.replace("-", "_") in installed
    ]
    return [f"commit {commit.stdout.strip()}", *sorted(set(found))]


if __name__ == "__main__":
    app()

"""`python -m corpus.checked`: runs the corpus in checked mode, optionally also in accuracy mode; prints kernels'
faults.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated
from unittest.mock import patch

import typer
from rich.console import Console
from rich.progress import track

from corpus.check import program_names
from corpus.collecting import in_processes, program_called
from inductor_npu.errors import AccuracyError, MemoryFaultError
from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.simulator.memory_check import CHECKED_VARIABLE

ACCURACY_VARIABLE = "INDUCTOR_NPU_ACCURACY"


@dataclass(frozen=True)
class Outcome:
    """How one program went. `fault`: what one of its kernels did wrong; `error`: why it ended early otherwise."""

    program: str
    fault: str | None = None
    error: str | None = None


def run_checked(names: Sequence[str], target: str, jobs: int, accuracy: bool = False) -> Iterator[Outcome]:
    """Runs the programs called `names` in checked mode, with `accuracy` in accuracy mode too, `jobs` at a time, each
    until its first fault.
    """
    with patch.dict(os.environ, {CHECKED_VARIABLE: "1", ACCURACY_VARIABLE: str(int(accuracy))}):  # for the processes
        yield from in_processes(_run, names, target, jobs)


def _run(name: str) -> Outcome:
    from inductor_npu.ascend.collect.afresh import compiled_afresh

    program = program_called(name)
    try:
        with compiled_afresh():
            program()
    except (MemoryFaultError, AccuracyError) as fault:
        return Outcome(name, fault=str(fault))
    except Exception as error:  # noqa: BLE001 - it is the program's, and is said
        return Outcome(name, error=f"{type(error).__name__}: {error}")
    return Outcome(name)


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    sample: Annotated[bool, typer.Option("--sample", help="Only the programs that CI checks.")] = False,
    only: Annotated[str, typer.Option(help="Only programs whose name begins so.")] = "",
    step: Annotated[int, typer.Option(help="Only every n-th of them.")] = 1,
    accuracy: Annotated[bool, typer.Option("--accuracy", help="Also hold each kernel against eager.")] = False,
    jobs: Annotated[int, typer.Option(help="Programs at a time.")] = len(os.sched_getaffinity(0)),
) -> None:
    """Runs each program of the corpus in checked mode. Exit status 1 if a kernel has a fault."""
    console = Console()
    names = [name for name in program_names(sample, target) if name.startswith(only)][::step]
    faults = errors = 0
    for outcome in track(run_checked(names, target, jobs, accuracy), "checked", len(names), console=console):
        if outcome.fault is not None:
            faults += 1
            console.print(f"[red]fault[/] in {outcome.program}: {outcome.fault}", highlight=False)
        elif outcome.error is not None:
            errors += 1
            console.print(f"not run to its end: {outcome.program}: {outcome.error[:300]}", highlight=False)
    console.print(f"{len(names)} programs: {faults} with a fault, {errors} that did not run to their end")
    if faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

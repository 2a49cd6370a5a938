"""Runs many cases: which ones, in processes, with limits, going on where a run was ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import TextColumn

from inductor_npu.support import terminal
from opinfo.outcomes import Verdict
from tests.part import Part
from tools import workers
from world import libraries, tasks
from world.case import place
from world.outcomes import Outcome, OutcomeFile


@dataclass(frozen=True)
class Limits:
    """Processes, seconds of one `case`, and seconds `in_all` after which what is left is not run."""

    jobs: int
    case: float
    in_all: float | None = None


@dataclass(frozen=True)
class Chosen:
    """Of the cases of `libraries` those in whose names the pattern `only` is found, and of these share `shard`, K/N."""

    libraries: Sequence[str]
    only: str = ""
    shard: str = "1/1"

    def names(self, console: Console) -> list[str]:
        """In an order by which each part of a sweep has all kinds. Says which libraries are not installed. Raises
        ValueError for a library or a share that there is not.
        """
        part = Part.parse(self.shard)
        names = [name for library in self.libraries for name in _names_of(console, library)]
        names = [name for name in names if re.search(self.only, name) and part.holds(name)]
        return sorted(names, key=lambda name: place(f"order of {name}", 1 << 30))


def _names_of(console: Console, library: str) -> list[str]:
    if library not in libraries.LIBRARIES:
        raise ValueError(f"{library} is none of {', '.join(libraries.LIBRARIES)}")
    if package := libraries.missing(library):
        console.print(f"[yellow]{library} is left out:[/] {package} is not installed (make world installs it)")
        return []
    return libraries.case_names(library)


def sweep(console: Console, names: Sequence[str], file: OutcomeFile, sides: str, limits: Limits) -> list[Outcome]:
    """Runs the cases that `file` does not have, on `sides` (world/running.py); the outcomes of `names` that are known
    afterwards.
    """
    end = None if limits.in_all is None else time.monotonic() + limits.in_all
    waiting = [tasks.Task(name, sides) for name in names if name not in file.known]
    if waiting:
        processes = tasks.processes(file.path.parent.absolute() / "stock", sides)
        module = {"cpu": "", "all": "world.tasks"}.get(sides, "inductor_npu.device")
        if module:  # makes what is made once, before many want it
            environment = {**os.environ, **processes.settings}
            subprocess.run([sys.executable, "-m", module], check=True, env=environment, stdout=subprocess.DEVNULL)
        _run(console, waiting, file, processes, limits, end)
    return [file.known[name] for name in names if name in file.known]


def _run(
    console: Console,
    waiting: Sequence[tasks.Task],
    file: OutcomeFile,
    processes: workers.Processes,
    limits: Limits,
    end: float | None,
) -> None:
    failed = 0
    with terminal.progress(console, TextColumn("{task.fields[failed]} failed")) as bars:
        bar = bars.add_task(file.path.stem, total=len(waiting), failed=0)

        def keep(task: tasks.Task, outcome: Outcome) -> None:
            nonlocal failed
            file.add(outcome)
            failed += outcome.failed
            bars.update(bar, failed=failed)
            if outcome.failed:
                bars.console.print(in_words(outcome), highlight=False, markup=False, soft_wrap=True)

        def advance(task: tasks.Task) -> None:
            bars.advance(bar)

        jobs = min(limits.jobs, len(waiting))
        workers.run(waiting, processes, jobs, limits.case, keep, advance, deadline=end)


def in_words(outcome: Outcome) -> str:
    """One line of a case that failed."""
    return f"{outcome.case}: {outcome.verdict.value}, {outcome.stage}: {outcome.reason}"


def summarise(console: Console, outcomes: Iterable[Outcome], asked: int) -> None:
    """Prints how many cases of each library came out how, and in the end a line of counts."""
    known = list(outcomes)
    for library in dict.fromkeys(outcome.library for outcome in known):
        verdicts = Counter(outcome.verdict.value for outcome in known if outcome.library == library)
        console.print(f"{library}: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.most_common())}")
    if len(known) < asked:
        console.print(f"{asked - len(known)} of {asked} cases were not run: the time was up")
    skipped = sum(outcome.verdict is Verdict.SKIPPED for outcome in known)
    failed = sum(outcome.failed for outcome in known)
    console.print(f"{len(known) - failed - skipped} passed, {failed} failed, {skipped} skipped", highlight=False)

"""`python -m opinfo`: sweeps the operators of OpInfo and compares the outcome with the table in git."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress, TaskID, TextColumn

from inductor_npu.support import terminal
from opinfo import plan, table
from opinfo.outcomes import FAILURES, Case, Outcome, OutcomeFile
from opinfo.samples import DTYPES, dtypes_of, operators
from opinfo.tasks import PROCESSES, Task
from tools import workers

ALL = 1_000_000
STOCK = "cpu"


def main(
    device: Annotated[str, typer.Option(help="npu; cpu is stock Inductor, the yardstick.")] = "npu",
    only: Annotated[str, typer.Option(help="Only operators whose whole name this pattern matches.")] = ".*",
    dtype: Annotated[str, typer.Option(help="Only these dtypes, such as float32,int64.")] = "",
    samples: Annotated[int, typer.Option(help="At most so many samples of each operator and dtype.")] = ALL,
    every: Annotated[int, typer.Option(min=1, help="Only every so manyth operator.")] = 1,
    static: Annotated[bool, typer.Option(help="With sizes that are constants.")] = True,
    dynamic: Annotated[bool, typer.Option(help="With sizes that are arguments.")] = True,
    stock: Annotated[bool, typer.Option(help="Afterwards, stock Inductor on the CPU on what failed.")] = True,
    again: Annotated[bool, typer.Option("--again", help="Also run again what failed before.")] = False,
    afresh: Annotated[bool, typer.Option("--afresh", help="Forget the outcomes of sweeps before.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes.")] = len(os.sched_getaffinity(0)),
    limit: Annotated[float, typer.Option(help="Seconds that one sample may take.")] = 60,
    minutes: Annotated[float | None, typer.Option(help="Time for all of it; what is left is not run.")] = None,
    outcomes: Annotated[Path, typer.Option(help="The folder where outcomes are kept.")] = Path("build/opinfo"),
    accept: Annotated[bool, typer.Option("--accept", help="Write the outcomes as the table in git.")] = False,
) -> None:
    """Compiles samples of PyTorch's operators and compares with eager on the CPU. Goes on where it was ended.

    Exit status 1 if an operator is worse than in the table. (Long, as each option has its help here.)
    """
    console = Console()
    chosen = [name for name in operators() if re.fullmatch(only, name)][::every]
    wanted = dtype.split(",") if dtype else list(DTYPES)
    version = torch.__version__.split("+")[0]
    files = {name: OutcomeFile(outcomes / f"{name}-torch-{version}.jsonl") for name in {device, STOCK}}
    if afresh:
        files[device].forget()
    if again:
        files[device].forget(lambda outcome: outcome.failed)
    end = None if minutes is None else time.monotonic() + 60 * minutes

    def dtypes(operator: str) -> list[str]:
        return [name for name in dtypes_of(operator) if name in wanted]

    if device == "npu":  # built once, before many processes want it
        subprocess.run([sys.executable, "-m", "inductor_npu.device"], check=True)
    with terminal.progress(console, TextColumn("{task.fields[failed]} failed")) as bars:
        sweep = _Sweep(bars, files, device)

        def tasks() -> Iterator[Task]:
            for stage in plan.stages(samples, static, dynamic):
                known, ends = files[device].known, files[device].ends
                yield from sweep.counted(stage.name, list(plan.tasks(stage, chosen, dtypes, device, known, ends)))
                if stock and device != STOCK:
                    yield from sweep.counted(f"{stage.name}, stock Inductor", sweep.failed(chosen))

        sweep.run(tasks(), jobs, limit, end)
        if stock and device != STOCK:  # what failed while the last tasks were given out
            sweep.run(sweep.counted("the last, stock Inductor", sweep.failed(chosen)), jobs, limit, end)
    ours = files[device].known
    found = table.lines(ours, files[STOCK].known if device != STOCK else {})
    summarise(console, device, ours, files[STOCK].known if device != STOCK else {})
    worse = table.worse(table.read(device), found)
    for line in worse:
        console.print(f"[red]worse:[/] {line}", highlight=False)
    if accept:
        table.write(device, found)
        console.print(f"Written: {table.path_of(device)}")
    elif worse:
        raise typer.Exit(1)


class _Sweep:
    """Keeps outcomes as they come, and a bar for each list of tasks."""

    def __init__(self, bars: Progress, files: dict[str, OutcomeFile], device: str) -> None:
        self.bars, self.files, self.device = bars, files, device
        self.bar_of: dict[Task, TaskID] = {}
        self.failures: Counter[TaskID] = Counter()

    def counted(self, name: str, tasks: list[Task]) -> Iterator[Task]:
        """Yields `tasks`; their bar appears with the first."""
        if tasks:
            bar = self.bars.add_task(name, total=len(tasks), failed=0)
            self.bar_of.update(dict.fromkeys(tasks, bar))
        yield from tasks

    def run(self, tasks: Iterator[Task], jobs: int, limit: float, end: float | None) -> None:
        def keep(task: Task, outcome: Outcome) -> None:
            self.files[task.device].add(outcome)
            bar = self.bar_of[task]
            self.failures[bar] += outcome.failed
            self.bars.update(bar, failed=self.failures[bar])

        def keep_end(task: Task, samples: int) -> None:
            self.files[task.device].add_end(task.operator, task.dtype, samples)

        def advance(task: Task) -> None:
            self.bars.advance(self.bar_of[task])

        workers.run(tasks, PROCESSES, jobs, limit, keep, advance, keep_end, end)

    def failed(self, chosen: Collection[str]) -> list[Task]:
        """What failed, for stock Inductor, unless that was run or is being run."""
        running = {task.case(index) for task in self.bar_of if task.device == STOCK for index in task.indices}
        missing: dict[tuple[str, str, bool], list[int]] = {}
        for case, outcome in self.files[self.device].known.items():
            there = case in running or case in self.files[STOCK].known
            if outcome.failed and case.operator in chosen and not there:
                missing.setdefault((case.operator, case.dtype, case.dynamic), []).append(case.index)
        return [
            Task(operator, dtype, tuple(sorted(indices)), dynamic, STOCK)
            for (operator, dtype, dynamic), indices in missing.items()
        ]


def summarise(console: Console, device: str, outcomes: dict[Case, Outcome], stock: dict[Case, Outcome]) -> None:
    """Prints counts of samples, and what fails by cause."""
    total = table.total(outcomes, stock)
    verdicts = Counter(outcome.verdict for outcome in outcomes.values())
    words = ", ".join(f"{verdicts[verdict]} {verdict.value}" for verdict in verdicts)
    console.print(f"{device}: {total.ran} samples of {len({case.operator for case in outcomes})} operators: {words}")
    if stock:
        console.print(
            f"Of {total.stock_passes} samples that stock Inductor passes on the CPU, {total.passed_of_those} pass"
            f" ({total.share:.2%}); {total.not_compared} were not run there and count as passing there"
        )
    causes: dict[str, Counter[str]] = {}
    for outcome in outcomes.values():
        if outcome.verdict in FAILURES:
            mark = "stock fails too: " if outcome.case in stock and stock[outcome.case].failed else ""
            causes.setdefault(mark + table.cause(outcome), Counter())[outcome.case.operator] += 1
    for cause, names in sorted(causes.items(), key=lambda item: (item[0].startswith("stock"), -item[1].total())):
        listed = ", ".join(name for name, _ in names.most_common(6))
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        console.print(f"  {names.total():5} {cause}: {listed}{more}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)

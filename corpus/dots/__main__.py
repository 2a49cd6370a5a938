"""`python -m corpus.dots`: does the embedded NPU's check of on-chip memory agree with Ascend's compiler on kernels with
`tl.dot`? `corpus.budget` asks the same of kernels without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from inductor_npu.providers import DEFAULT_TARGET

from . import attention, matmul
from .agreement import Trial, agreement, compare, path_of, write

LEAST_AGREEMENT = 0.97


def summarise(console: Console, trials: Sequence[Trial], others: Sequence[str]) -> None:
    """Prints the agreement by group and each disagreement, the worst first."""
    counts = Counter((not trial.too_small, not trial.refused_for) for trial in trials)
    forms = len({trial.name for trial in trials})
    console.print(f"{forms} kernels, {len(trials)} choices of blocks: {agreement(trials):.1%} agree", highlight=False)
    console.print(f"  both fit {counts[True, True]}, both do not {counts[False, False]}", highlight=False)
    console.print(f"  we accept what Ascend refuses {counts[True, False]}", highlight=False)
    console.print(f"  we refuse what Ascend accepts {counts[False, True]}", highlight=False)
    console.print(f"  refused for other reasons, not counted: {len(others)}", highlight=False)
    table = Table("group", "kernels", "choices", "agree")
    for group in dict.fromkeys(trial.group for trial in trials):
        own = [trial for trial in trials if trial.group == group]
        table.add_row(group, str(len({trial.name for trial in own})), str(len(own)), f"{agreement(own):.1%}")
    console.print(table)
    for trial in sorted((trial for trial in trials if not trial.agrees), key=lambda trial: bool(trial.too_small)):
        console.print(f"{trial.name}: {trial.words}", highlight=False, markup=False)


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    jobs: Annotated[int, typer.Option(help="Kernels at a time.")] = 2,
    only: Annotated[str, typer.Option(help="Only kernels with this in their name.")] = "",
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Compares the two checks of on-chip memory. Exit status 1 if they agree on less than LEAST_AGREEMENT (97%)."""
    console = Console()
    forms = [form for form in (*matmul.forms(), *attention.forms()) if only in form.name]
    trials, others = compare(forms, target, jobs)
    summarise(console, trials, others)
    if accept:
        write(target, trials)
        console.print(f"Written: {path_of(target)}")
    if agreement(trials) < LEAST_AGREEMENT:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

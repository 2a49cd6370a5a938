"""Runs the benchmarks: all of them, or those named.

python -m benchmarks                        everything; about twenty minutes on two cores
python -m benchmarks run launch             run times and launches only
python -m benchmarks host decode            chains of small kernels; a model that generates tokens
python -m benchmarks collectives            between 2 and 4 processes; about five minutes
python -m benchmarks run --only softmax     cases with "softmax" in their name
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks import collectives, compile_time, data_parallel, decoding, host_time, launch_time, run_time
from benchmarks.compiled import Compiled, compiled_cases
from benchmarks.noise import LARGEST_SHARE, OtherPrograms
from benchmarks.report import Report, Section, save, show, write_document

PARTS_OF = {Section.ONE_PROCESS: ("run", "compile", "launch", "host", "decode"), Section.RANKS: ("collectives",)}
PARTS = tuple(part for parts in PARTS_OF.values() for part in parts)
TURNS_OF_COLLECTIVES = 20  # in a round: one takes less time than the machine's slow moments last
RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench" / "results.json"


def main() -> int:
    """Measures, prints and saves. The exit status is 1 if a case failed or gave wrong values."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--only", default="", help="measure only cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each side when measuring run time")
    parser.add_argument("--repeats", type=int, default=2, help="starts of each case on each side")
    parser.add_argument("--device", default="npu", help="the device in npu's place; cpu checks the harness itself")
    parser.add_argument(
        "--busy", action="store_true", help="write docs/benchmarks.md though other programs run; it says"
    )
    parser.add_argument("--no-document", action="store_true", help="leave docs/benchmarks.md as it is")
    arguments = parser.parse_args()

    console, report, others = Console(), Report(), OtherPrograms()
    measure(arguments, report, console)
    show(report, console)
    report.others = others.share()
    quiet = report.others <= LARGEST_SHARE
    if not quiet:
        console.print(
            f"[red]Other programs took {report.others:.0%} of the processors meanwhile: these numbers mean little; "
            "docs/benchmarks.md stays as it is, unless --busy is given. Measure again on an idle machine.[/red]"
        )
    console.print(f"Saved in {RESULTS}")
    whole = not arguments.only and arguments.device == "npu"
    if whole and (quiet or arguments.busy) and not arguments.no_document:
        write_document(report, {each for each, parts in PARTS_OF.items() if set(parts) <= set(arguments.parts)})
    correct = all(
        result.correct for result in [*report.run_times, *report.decoding, *report.collectives, *report.data_parallel]
    )
    return 1 if report.failures or not correct else 0


def measure(arguments: argparse.Namespace, report: Report, console: Console) -> None:
    """Fills `report` with the parts asked for. A case that raises is noted there, and the others go on."""
    work: list[tuple[str, Callable[[], None]]] = []
    if "run" in arguments.parts:
        for case in run_time.cases(arguments.only):
            work.append((case.name, lambda case=case: _add_run_time(report, case, arguments)))
    if "compile" in arguments.parts:
        compile_time.write_byte_code()
        for compiled in compiled_cases():
            if arguments.only in compiled.name:
                name = f"compile {compiled.name}"
                work.append((name, lambda compiled=compiled: _add_compile_time(report, compiled, arguments)))
    if "launch" in arguments.parts:
        work.append(("launch", lambda: report.launch_times.update(launch_time.measure())))
    if "host" in arguments.parts:
        work.append(("host", lambda: report.host_times.extend(host_time.measure(arguments.rounds))))
    if "decode" in arguments.parts:
        work.append(("decode", lambda: report.decoding.append(decoding.measure(arguments.rounds))))
    if "collectives" in arguments.parts:
        work += [
            (f"collectives of {ranks} ranks", partial(_add_collectives, report, ranks, arguments))
            for ranks in collectives.RANKS
        ]
        work.append(("data parallel", lambda: report.data_parallel.append(data_parallel.measure(arguments.rounds))))

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(work))
        for name, run in work:
            progress.update(task, description=name)
            try:
                run()
            except Exception as error:  # noqa: BLE001 - reported, and the exit status tells
                report.failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                console.print(f"[red]{name} failed:[/red] {type(error).__name__}: {error}", markup=True)
            save(report, RESULTS)  # an interrupted run keeps what it has
            progress.advance(task)


def _add_run_time(report: Report, case: run_time.Case, arguments: argparse.Namespace) -> None:
    report.run_times.append(run_time.measure(case, arguments.rounds, arguments.device))


def _add_collectives(report: Report, ranks: int, arguments: argparse.Namespace) -> None:
    report.collectives += collectives.measure(ranks, TURNS_OF_COLLECTIVES * arguments.rounds)


def _add_compile_time(report: Report, case: Compiled, arguments: argparse.Namespace) -> None:
    torch._dynamo.reset()
    report.compile_times.append(compile_time.measure(case.name, case.has_layers, arguments.repeats, arguments.device))


if __name__ == "__main__":
    sys.exit(main())

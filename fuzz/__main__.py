"""`python -m fuzz`: generates random programs, and keeps those that fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from fuzz.case import Case
from fuzz.search import Failure, Search
from inductor_npu.support import terminal

# A process serves for so many programs: compiled code is not given back.
PROGRAMS_OF_A_PROCESS = 60


def main(
    programs: Annotated[int, typer.Option(help="How many.")] = 10_000,
    first_seed: Annotated[int, typer.Option("--seed", help="Of the first process; each has the next number.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes.")] = len(os.sched_getaffinity(0)),
    minutes: Annotated[float | None, typer.Option(help="Time for all of it.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds that one program may take.")] = 300,
    device: Annotated[str, typer.Option(help="npu; cpu is stock Inductor.")] = "npu",
    again: Annotated[Path | None, typer.Option(help="Check this kept program only.")] = None,
    found: Annotated[Path, typer.Option(help="Where programs that go wrong are kept.")] = Path("build/fuzz"),
) -> None:
    """Compiles random programs and compares with eager on the CPU. Exit status 1 if one is wrong, or a process of
    them ended without an answer. (Long, as each option has its help here.)
    """
    console = Console()
    if again is not None:
        with tempfile.TemporaryDirectory() as folder:
            why = Search(device, Path(folder) / "running.py", limit).why(Case.read(again))
        console.print(why or "right", markup=False)
        raise typer.Exit(bool(why))
    if device == "npu":  # built once, before many processes want it
        subprocess.run([sys.executable, "-m", "inductor_npu.device"], check=True)
    found.mkdir(parents=True, exist_ok=True)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    failures = 0
    lost: list[str] = []  # why processes ended without an answer
    as_stock: dict[int, int] = {}  # by process
    with terminal.progress(console) as bars, tempfile.TemporaryDirectory() as folder:
        bar = bars.add_task("programs", total=programs)

        def one(number: int) -> None:
            nonlocal failures
            if end is not None and time.monotonic() > end:
                return
            of_this = min(PROGRAMS_OF_A_PROCESS, programs - (number - first_seed) * PROGRAMS_OF_A_PROCESS)

            def on_checked(message: dict[str, int]) -> None:
                bars.advance(bar)
                as_stock[number] = message["as stock"]

            try:
                failure = _run(number, of_this, device, limit, Path(folder), on_checked, end)
            except Exception as error:  # noqa: BLE001 - of one process; the others go on, and it is told at the end
                lost.append(f"seed {number}: {type(error).__name__}: {error}")
                return
            if failure is not None:
                failures += 1
                path = found / f"{sha256(failure.text.encode()).hexdigest()[:12]}.py"
                path.write_text(f"# {failure.why}\n\n{failure.text}")
                console.print(f"[red]{path}[/]: {failure.why}", highlight=False)

        processes = -(-programs // PROGRAMS_OF_A_PROCESS)
        with ThreadPoolExecutor(jobs) as pool:
            for done in pool.map(one, range(first_seed, first_seed + processes)):
                del done
        checked = int(bars.tasks[0].completed)
    console.print(f"{checked} programs from seed {first_seed}, {failures} processes of which one went wrong")
    if shared := sum(as_stock.values()):
        console.print(f"{shared} others go wrong in stock Inductor on the CPU, too")
    for why in lost:
        console.print(f"[red]lost:[/] {escape(why)}", highlight=False)
    raise typer.Exit(bool(failures or lost))


def _run(
    number: int,
    programs: int,
    device: str,
    limit: float,
    folder: Path,
    on_checked: Callable[[dict[str, int]], None],
    end: float | None = None,
) -> Failure | None:
    """What went wrong with `programs` programs from the seed `number`, in a process and with a cache of their own. At
    the time `end`, the program that runs is the last; one that went wrong is still reduced.
    """
    running = folder / f"{number}.py"
    failure: Failure | None = None
    answers, channel = os.pipe()
    command = [sys.executable, "-m", "fuzz.search", str(number), str(programs), device, str(running), str(limit)]
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+") as words, open(answers) as messages:
        settings = {
            "TORCHINDUCTOR_CACHE_DIR": cache,  # ours goes there, too; the device's library stays where it was built
            "OMP_NUM_THREADS": "1",
            "INDUCTOR_NPU_PROVIDER": "simulator",
        }
        environment = {**os.environ, **settings}
        try:
            process = subprocess.Popen(
                [*command, str(channel)], stdout=words, stderr=words, pass_fds=[channel], env=environment
            )
        finally:
            os.close(channel)
        for line in messages:
            message = json.loads(line)
            if "text" in message:
                failure = Failure(**message)
            else:
                on_checked(message)
                if end is not None and time.monotonic() > end and not message["reduces"]:
                    process.kill()
                    process.wait()
                    return None
        status = process.wait()
        if failure is None and running.exists():
            words.seek(0)
            last = (words.read().strip().splitlines() or [""])[-1]
            return Failure(running.read_text(), f"the process ended with status {status}: {last}")
        if status:
            words.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with status {status}\n{words.read()}")
    return failure


if __name__ == "__main__":
    typer.run(main)

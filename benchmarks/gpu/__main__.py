"""Measures the device `npu` of provider `cuda` against stock Inductor and eager PyTorch on the same GPU.

python -m benchmarks.gpu                            everything: kernels, models, small, launches, compile
python -m benchmarks.gpu --seconds 500              what fits into so many seconds, in this order
python -m benchmarks.gpu --groups models compile    these groups only
python -m benchmarks.gpu --only softmax "rms norm"  cases with one of these in their name
python -m benchmarks.gpu --document FILE            puts what FILE holds into docs/benchmarks.md, and measures nothing
python -m benchmarks.gpu --stock cpu --scale 0.001  a rehearsal without a GPU: the embedded NPU beside the CPU
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu import report
from benchmarks.gpu.case import GROUPS, Setup

ROOT = Path(__file__).resolve().parents[2]
MACHINE = "machine"
START_SECONDS = 180  # of a worker: imports, and the bandwidth of copies
# What a case takes on a GPU, until one of its group was measured; and what it may take.
GUESS = {"kernels": 6, "models": 40, "small": 15, "launches": 20, "compile": 60}
LIMIT = {"kernels": 90, "models": 240, "small": 120, "launches": 120, "compile": 600}


class WorkerError(Exception):
    """The process that measures has ended, or was ended because it took too long."""


class Worker:
    """The process that measures. Raises WorkerError where it does not answer."""

    def __init__(self, setup: Setup) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.worker", json.dumps(asdict(setup))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that it can be ended with the processes that it started
        )
        self._rest = b""
        self.cases: list[str] = self._answer(START_SECONDS)["cases"]

    def ask(self, name: str, seconds: float) -> dict[str, Any]:
        """What the worker measured for the case `name`; it has so many seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(name.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError("the process that measures had ended") from None
        return self._answer(seconds)

    def end(self) -> None:
        """Ends the process and those that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # all of them have ended
        finally:
            self._process.wait()

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        pipe, until = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                self.end()
                raise WorkerError(f"no result after {seconds:.0f} s: ended")
            piece = os.read(pipe, 1 << 16)
            if not piece:  # it has closed the pipe, and is about to end
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(10)
                status = self._process.returncode
                self.end()
                raise WorkerError(f"crashed: exit status {status}")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


class Run:
    """One run: asks a worker for case after case, and keeps what it says."""

    def __init__(self, arguments: argparse.Namespace, setup: Setup) -> None:
        self._arguments, self._setup = arguments, setup
        self._began = time.monotonic()
        self._took: dict[str, list[float]] = {group: [] for group in GROUPS}
        self._worker: Worker | None = None
        self._content: dict[str, Any] = {"machine": {}, "bandwidth": {}, "setup": asdict(setup), "results": []}

    def __call__(self) -> int:
        """The exit status: 1 where a case failed or has wrong values."""
        names = self._first_worker()
        _say(report.machine_line(self._content))
        group = ""
        for name in filter(self._is_asked_for, names):
            result = self._result_of(name)
            if result["group"] != group:
                group = result["group"]
                _say(f"{'':5}    {report.header_line(group)}")
            self._content["results"].append(result)
            self._save()
            _say(f"{time.monotonic() - self._began:5.0f} s  {report.line(result, self._content)}")
        self._end_worker()
        self._save()
        _say(f"\n{report.markdown(self._content)}\nSaved in {self._arguments.out} and beside it as .md")
        results = self._content["results"]
        return int(any(result["status"] == "failed" or result.get("differs") for result in results))

    def _first_worker(self) -> list[str]:
        self._worker = Worker(self._setup)
        names = self._worker.cases
        try:
            answer = self._worker.ask(MACHINE, START_SECONDS)
            self._content |= {"machine": answer["machine"], "bandwidth": answer["bandwidth"]}
            broken = answer.get("broken")
        except WorkerError as error:
            broken = str(error)
        if broken:
            _say(f"The copy on the device failed: {broken}")
            self._end_worker()
        return names

    def _is_asked_for(self, name: str) -> bool:
        only = self._arguments.only
        return name.partition(":")[0] in self._arguments.groups and (not only or any(part in name for part in only))

    def _left(self) -> float:
        return (self._arguments.seconds or float("inf")) - (time.monotonic() - self._began)

    def _result_of(self, name: str) -> dict[str, Any]:
        group, _, case = name.partition(": ")
        known = {"group": group, "name": case}
        took = self._took[group]
        expected = sum(took) / len(took) if took else GUESS[group]
        if self._setup.is_rehearsal and not took:
            expected = 0
        if expected > self._left():
            return {
                **known,
                "status": "skipped",
                "reason": f"about {expected:.0f} s, and {self._left():.0f} s are left",
            }
        began = time.monotonic()
        try:
            self._worker = self._worker or Worker(self._setup)
            result = self._worker.ask(name, min(LIMIT[group], max(self._left(), 1)))
        except WorkerError as error:
            self._end_worker()
            return {**known, "status": "failed", "reason": str(error)}
        if result.get("broken"):
            self._end_worker()
        took.append(time.monotonic() - began)
        return result

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = None

    def _save(self) -> None:
        out = self._arguments.out
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(self._content, indent=1) + "\n")
        out.with_suffix(".md").write_text(report.markdown(self._content))


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--only", nargs="+", default=[], help="cases with one of these in their name")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "gpu.json")
    parser.add_argument(
        "--seconds", type=float, default=0, help="leave out what does not fit into so many (0: no limit)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--repeats", type=int, default=1, help="cold starts of each side")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile")
    parser.add_argument("--ours", default="npu")
    parser.add_argument("--stock", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="sizes, as a part of those that fill a GPU")
    parser.add_argument("--document", type=Path, help="a file of an earlier run, for docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.document:
        report.write_document(json.loads(arguments.document.read_text()))
        return 0
    if arguments.stock == "cuda":
        os.environ.setdefault("INDUCTOR_NPU_PROVIDER", "cuda")
    named = ("ours", "stock", "scale", "rounds", "repeats", "workers")
    run = Run(arguments, Setup(**{name: getattr(arguments, name) for name in named}))
    return run()


if __name__ == "__main__":
    sys.exit(main())

"""The two processes that measure, side by side: one for ours, one for stock Inductor and eager PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.case import WORKERS, Setup, shortened

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180  # of a worker: imports, and the bandwidth of copies
RELEASE_SECONDS = 60
LINES = 6  # of a log that are told of a process that has crashed
MEMORY, ROOM = Path("/dev/shm"), 2**33  # results are exchanged in memory where it has room for them

Answer = dict[str, Any]


class WorkerError(Exception):
    """A side failed, or its process has ended, or was ended because it took too long. The text names the side."""


class Worker:
    """A process that measures. What it prints goes to `log`."""

    def __init__(self, setup: Setup, name: str, log: Path) -> None:
        self._name, self._log = name, log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu.worker", name, json.dumps(asdict(setup))],
                cwd=ROOT,
                env={**os.environ, **setup.environment(name)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # so that it can be ended with the processes that it started
            )
        self._rest = b""
        self._told = log.stat().st_size
        self.is_alive = True

    def send(self, do: str, **known: Any) -> None:
        """Asks for something; `answer` waits for it."""
        assert self._process.stdin is not None
        self._told = self._log.stat().st_size
        # A process that has ended is told by `answer`.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **known}).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, seconds: float) -> Answer:
        """What it says within so many seconds. Raises WorkerError where it says nothing, or that it failed."""
        assert self._process.stdout is not None
        pipe, until = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not self.is_alive:
                raise WorkerError(f"{self._name}: the process that measures had ended")
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                self.end()
                raise WorkerError(f"{self._name}: no result after {seconds:.0f} s: ended")
            piece = os.read(pipe, 1 << 16)
            if not piece:  # it has closed the pipe, and is about to end
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(10)
                status = self._process.returncode
                self.end()
                raise WorkerError(f"{self._name}: crashed: exit status {status}{self._last_lines()}")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        answer = json.loads(line)
        if "failed" in answer:
            raise WorkerError(f"{self._name}: {answer['failed']}")
        return answer

    def ask(self, do: str, seconds: float, **known: Any) -> Answer:
        """`send` and `answer`."""
        self.send(do, **known)
        return self.answer(seconds)

    def end(self) -> None:
        """Ends the process and those that it started."""
        self.is_alive = False
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # all of them have ended
        finally:
            self._process.wait()

    def _last_lines(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._told)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return shortened("".join(f"\n{line}" for line in lines[-LINES:]))


class Pair:
    """Both processes, of which one that has ended is started again. Ended with `end`, or as a context."""

    def __init__(self, setup: Setup, logs: Path) -> None:
        """logs: a path without its ending, for `.ours.log` and `.stock.log`."""
        self._setup = setup
        self._logs = {name: logs.with_name(f"{logs.name}.{name}.log") for name in WORKERS}
        self._workers: dict[str, Worker] = {}
        self.cases: list[str] = []
        for log in self._logs.values():
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(b"")
        free = shutil.disk_usage(MEMORY).free if MEMORY.is_dir() else 0
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if free >= ROOM else None)
        self._results = Path(self._folder.name) / "results"

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._folder.cleanup()

    def start(self) -> None:
        """Starts what does not run. Raises WorkerError where one does not start."""
        new = [name for name in WORKERS if name not in self._workers or not self._workers[name].is_alive]
        for name in new:
            self._workers[name] = Worker(self._setup, name, self._logs[name])
        for answer in self._answers(new, START_SECONDS).values():
            self.cases = answer["cases"]

    def machine(self) -> dict[str, Any]:
        """What the numbers depend on, which GPU it is, and the bandwidth of copies; `broken` where a side failed."""
        told: dict[str, Any] = {"machine": {}, "gpu": "", "bandwidth": {}}
        for name, worker in self._workers.items():
            try:
                answer = worker.ask("machine", START_SECONDS)
            except WorkerError as error:
                told["broken"] = str(error)
                worker.end()
                continue
            told["bandwidth"][name] = answer.pop("rate")
            told |= answer
        return told

    def measure(self, name: str, seconds: float) -> Answer:
        """The numbers of a case, within so many seconds.

        Both processes compile at the same time; then one after the other takes a turn, so that both see the same
        machine. Raises WorkerError with what either says.
        """
        until = time.monotonic() + seconds
        self.start()
        try:
            return self._numbers(name, until)
        finally:
            self._release()

    def end(self) -> None:
        """Ends both."""
        for worker in self._workers.values():
            worker.end()

    def _numbers(self, name: str, until: float) -> Answer:
        results = str(self._results)
        for worker in self._workers.values():
            worker.send("prepare", case=name, results=results)
        prepared = self._answers(self._workers, until - time.monotonic())
        numbers: Answer = {}
        turns: dict[str, str] = {}  # of each number, the process that takes its time
        for worker_name, answer in prepared.items():
            numbers |= answer["known"]
            turns |= dict.fromkeys(answer["turns"], worker_name)
        # One of a kind after the other: "ours_done", "stock_done".
        turns = dict(sorted(turns.items(), key=lambda turn: turn[0].partition("_")[2]))
        rounds = self._setup.rounds * max(answer["rounds"] for answer in prepared.values())
        numbers |= self._in_turns(turns, rounds, until)
        if self._setup.profiled:
            numbers |= self._profiles(turns, until)
        return numbers | self._workers["stock"].ask(
            "finish", until - time.monotonic(), numbers=numbers, results=results
        )

    def _in_turns(self, turns: dict[str, str], rounds: int, until: float) -> dict[str, float]:
        """The median of each; who begins changes, and what a host does besides is in all of them alike."""
        times: dict[str, list[float]] = {turn: [] for turn in turns}
        order = list(turns)
        for _ in range(rounds):
            for turn in order:
                answer = self._workers[turns[turn]].ask("turn", until - time.monotonic(), turn=turn)
                times[turn].append(answer["seconds"])
            order.append(order.pop(0))
        return {turn: statistics.median(values) for turn, values in times.items()}

    def _profiles(self, turns: dict[str, str], until: float) -> Answer:
        """What the device runs in a turn, by the name of the number and `_profile`."""
        asked = {turn: self._workers[name] for turn, name in turns.items()}
        return {
            f"{turn}_profile": worker.ask("profile", until - time.monotonic(), turn=turn)["rows"]
            for turn, worker in asked.items()
        }

    def _release(self) -> None:
        """Has both give back what the case took; ends one that cannot, as after an error of the GPU."""
        self._results.unlink(missing_ok=True)
        alive = [worker for worker in self._workers.values() if worker.is_alive]
        for worker in alive:
            worker.send("release")
        for worker in alive:
            try:
                worker.answer(RELEASE_SECONDS)
            except WorkerError:  # the case has been told of; what does not work any more shows in the log
                worker.end()

    def _answers(self, names: Iterable[str], seconds: float) -> dict[str, Answer]:
        """Of all; raises WorkerError with the reasons of all that failed, after each has answered."""
        until = time.monotonic() + seconds
        answers, reasons = {}, []
        for name in names:
            try:
                answers[name] = self._workers[name].answer(until - time.monotonic())
            except WorkerError as error:
                reasons.append(str(error))
        if reasons:
            raise WorkerError("\n".join(reasons))
        return answers

"""Runs tasks in processes that may crash or hang: a case costs at most its time limit, never the sweep.

A worker gets a task and the indices of its cases that are left, and answers with pairs:

    ("begin", index)      it begins a case; the time limit counts from here
    ("said", value)       anything that is of use before the case is done, or if it never is
    ("outcome", outcome)  what became of the case
    ("done", renew)       the task is done; renew: whether another process should go on

A worker that dies, or exceeds the limit, is replaced, and its task continues with the next case.
"""

from __future__ import annotations

import faulthandler
import functools
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol
from unittest.mock import patch

from tools.tables import one_line

GIVE_UP = 3  # crashes and time-outs of one task after which the rest of it is not run
# What faulthandler writes before the frames of the thread that crashed, and a frame.
_CRASH = "Fatal Python error"
_FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')
_ERRORS = ("Error", "rror:", "what():", "ssertion")  # words of a line that says what went wrong
READING_SECONDS = 120.0  # a new process reads what it needs before its first case
# Settings of processes that compile for the embedded NPU: one thread each, and no device that a fork could not open.
SETTINGS = {
    "INDUCTOR_NPU_PROVIDER": "simulator",
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # kernels are compiled in the process: no pool of workers is wanted
    "INDUCTOR_NPU_SIM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


class Task(Protocol):
    """Cases that one process runs one after the other; `indices` are their places in the task."""

    @property
    def indices(self) -> tuple[int, ...]: ...

    def lost(self, index: int, loss: Loss) -> Any:
        """The outcome of a case during which its process ended."""


@dataclass(frozen=True)
class Loss:
    """How a process ended. `late`: by us, at the time limit; else by itself, and `reason` has its last words.
    `begun`: whether it had begun the case. `said`: the last value that it said of the case, else None.
    """

    late: bool
    begun: bool
    reason: str
    said: Any


@dataclass(frozen=True)
class Processes:
    """What processes are: `work` serves one end of a pipe for ever, in a process that comes from one which has the
    modules `preload` read, but no device open, with the environment variables `settings`. `renewed_after`: so many
    cases, so that what a process gathers stays bounded.
    """

    work: Callable[[Connection], None]
    preload: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    renewed_after: int = 400


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    errors: str  # the file that its standard error goes to
    task: Any = None
    left: deque[int] = field(default_factory=deque)
    since: float = 0.0  # when the sample that it has was begun, or the task was given
    begun: bool = False
    failures: int = 0
    cases: int = 0
    said: Any = None
    renew: bool = False
    late: bool = False  # ended by us
    lost: bool = False  # ended


def run(
    tasks: Iterable[Any],
    processes: Processes,
    jobs: int,
    limit: float,
    on_outcome: Callable[[Any, Any], None],
    on_task: Callable[[Any], None] = lambda task: None,
    on_said: Callable[[Any, Any], None] = lambda task, value: None,
    deadline: float | None = None,
) -> None:
    """Runs `tasks` (each a `Task`) in order, `jobs` at a time. `limit`: seconds of one case; `deadline`: of
    time.monotonic(), after which what is left is not run. `on_task` is called after each task.
    """
    with (
        patch.dict(os.environ, processes.settings),  # which torch reads before any function of ours runs
        tempfile.TemporaryDirectory(prefix="workers-") as folder,
    ):
        start = functools.partial(_started, _context(processes.preload), folder, processes.work)
        waiting = iter(tasks)
        workers: list[_Worker] = []
        try:
            workers.extend(start(number) for number in range(jobs))
            for worker in workers:
                _give(worker, next(waiting, None))
            while any(worker.task for worker in workers) and (deadline is None or time.monotonic() < deadline):
                _hear(workers, on_outcome, on_said, on_task, limit)
                for place, worker in enumerate(workers):
                    if worker.task is not None and worker.lost:
                        again = functools.partial(start, place)
                        worker = workers[place] = _replaced(worker, again, on_outcome, on_task)
                    if worker.task is None and (task := next(waiting, None)) is not None:
                        if worker.renew or worker.cases > processes.renewed_after:
                            _end(worker)
                            worker = workers[place] = start(place)
                        _give(worker, task)
        finally:
            for worker in workers:
                _end(worker)


def _hear(
    workers: list[_Worker],
    on_outcome: Callable[[Any, Any], None],
    on_said: Callable[[Any, Any], None],
    on_task: Callable[[Any], None],
    limit: float,
) -> None:
    """Handles what workers say within half a second, and ends those that have been at one case for too long."""
    busy = {worker.pipe: worker for worker in workers if worker.task is not None}
    for pipe in wait(list(busy), timeout=0.5):
        worker = busy[pipe]  # type: ignore[index]
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.lost = True
            continue
        if kind == "said":
            worker.said = value
            on_said(worker.task, value)
            continue
        worker.since = time.monotonic()
        if kind == "begin":
            worker.begun, worker.said = True, None
        elif kind == "outcome":
            worker.begun = False
            worker.cases += 1
            worker.left.popleft()
            on_outcome(worker.task, value)
        else:
            on_task(worker.task)
            worker.task, worker.renew = None, bool(value)
    for worker in busy.values():
        allowed = limit if worker.begun else max(limit, READING_SECONDS)
        if worker.task is not None and not worker.late and time.monotonic() - worker.since > allowed:
            worker.late = True
            worker.process.kill()


def _replaced(
    worker: _Worker,
    start: Callable[[], _Worker],
    on_outcome: Callable[[Any, Any], None],
    on_task: Callable[[Any], None],
) -> _Worker:
    """A new worker for one that died, with what its task has left; the case that it had is accounted for."""
    worker.process.join()
    task, left = worker.task, worker.left
    assert task is not None
    if left:
        reason = "" if worker.late else _last_words(worker)
        on_outcome(task, task.lost(left.popleft(), Loss(worker.late, worker.begun, reason, worker.said)))
    failures = worker.failures + 1
    _end(worker)
    new = start()
    new.failures = failures
    if left and failures < GIVE_UP:
        _give(new, task, left, failures)
    else:
        on_task(task)
    return new


def _last_words(worker: _Worker) -> str:
    """The signal, and what was last written to standard error of use to a person."""
    code = worker.process.exitcode
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"
    with open(worker.errors, errors="replace") as file:
        return one_line(f"{name}: {_of_use(file.read())}")


def _of_use(words: str) -> str:
    """The last error, and the frames in which Python says that it crashed, innermost first; else the last line."""
    words, crash, frames = words.partition(_CRASH)
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in _ERRORS)]
    told = errors[-1:]
    if crash:
        shown = _FRAME.findall(frames.partition("Current thread ")[2])[:4]
        told.append(" <- ".join(f"{'/'.join(file.split(os.sep)[-2:])}:{line} {name}" for file, line, name in shown))
    return "; ".join(told or lines[-1:])


def _give(worker: _Worker, task: Any, left: Iterable[int] | None = None, failures: int = 0) -> None:
    worker.task, worker.failures, worker.begun = task, failures, False
    if task is not None:
        worker.left = deque(task.indices if left is None else left)
        worker.since = time.monotonic()
        worker.pipe.send((task, tuple(worker.left)))


def _started(context: Any, folder: str, work: Callable[[Connection], None], number: int) -> _Worker:
    ours, theirs = context.Pipe()
    errors = os.path.join(folder, f"{number}.log")
    process = context.Process(target=_live, args=(work, theirs, errors), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours, errors)


def _end(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _context(preload: tuple[str, ...]) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


def _live(work: Callable[[Connection], None], pipe: Connection, errors: str) -> None:
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, sys.stderr.fileno())
    os.dup2(log, sys.stdout.fileno())
    faulthandler.enable()
    work(pipe)

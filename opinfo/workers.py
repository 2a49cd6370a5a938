"""Runs tasks in processes that may crash or hang: a sample costs at most its time limit, never the sweep.

A worker reports which sample it begins, and its outcome. A worker that dies, or exceeds the limit, is replaced, and its
task continues with the next sample.
"""

from __future__ import annotations

import faulthandler
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any
from unittest.mock import patch

from inductor_npu import providers
from opinfo.outcomes import Case, Outcome, Verdict
from tools.tables import one_line

GIVE_UP = 3  # crashes and time-outs of one task after which the rest of it is not run
READING_SECONDS = 120.0  # a new process reads the database before its first sample
RENEWED_AFTER = 400  # cases, so that what a process gathers stays bounded
_SETTINGS = {
    providers.PROVIDER_VARIABLE: providers.SIMULATOR.name,
    "INDUCTOR_NPU_STRICT": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # kernels are compiled in the process: no pool of workers is wanted
    "INDUCTOR_NPU_SIM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",  # which a forked process could not open
}


@dataclass(frozen=True)
class Task:
    """Samples of one operator, of one dtype, for one device: those of `indices` that there are."""

    operator: str
    dtype: str
    indices: tuple[int, ...]
    dynamic: bool
    device: str

    def case(self, index: int) -> Case:
        return Case(self.operator, self.dtype, index, self.dynamic)


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    errors: str  # the file that its standard error goes to
    task: Task | None = None
    left: deque[int] = field(default_factory=deque)
    since: float = 0.0  # when the sample that it has was begun, or the task was given
    begun: bool = False
    failures: int = 0
    cases: int = 0
    late: bool = False  # ended by us
    lost: bool = False  # ended


def run(
    tasks: Iterable[Task],
    jobs: int,
    limit: float,
    on_outcome: Callable[[Task, Outcome], None],
    on_end: Callable[[Task, int], None],
    on_task: Callable[[Task], None],
    deadline: float | None = None,
    work: Callable[[Connection], None] | None = None,
) -> None:
    """Runs `tasks` in order, `jobs` at a time. `limit`: seconds of one sample; `deadline`: of time.monotonic(),
    after which what is left is not run. `on_end` hears how many samples an operator has once a task finds fewer than
    it asked for; `on_task` is called after each task. `work` is what a process does with its end of the pipe (tests
    have something else).
    """
    with (
        patch.dict(os.environ, _SETTINGS),  # for the processes, which torch reads before any function of ours runs
        tempfile.TemporaryDirectory(prefix="opinfo-") as folder,
    ):
        start = functools.partial(_started, _context(), folder, work or _work)
        waiting = iter(tasks)
        workers: list[_Worker] = []
        try:
            workers.extend(start(number) for number in range(jobs))
            for worker in workers:
                _give(worker, next(waiting, None))
            while any(worker.task for worker in workers) and (deadline is None or time.monotonic() < deadline):
                _hear(workers, on_outcome, on_end, on_task, limit)
                for place, worker in enumerate(workers):
                    if worker.task is None and (task := next(waiting, None)) is not None:
                        if worker.cases > RENEWED_AFTER:
                            _end(worker)
                            worker = workers[place] = start(place)
                        _give(worker, task)
                    elif worker.task is not None and worker.lost:
                        workers[place] = _replaced(worker, lambda place=place: start(place), on_outcome, on_task)
        finally:
            for worker in workers:
                _end(worker)


def _hear(
    workers: list[_Worker],
    on_outcome: Callable[[Task, Outcome], None],
    on_end: Callable[[Task, int], None],
    on_task: Callable[[Task], None],
    limit: float,
) -> None:
    """Handles what workers say within half a second, and ends those that have been at one sample for too long."""
    busy = {worker.pipe: worker for worker in workers if worker.task is not None}
    for pipe in wait(list(busy), timeout=0.5):
        worker = busy[pipe]  # type: ignore[index]
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.lost = True
            continue
        worker.since = time.monotonic()
        if kind == "begin":
            worker.begun = True
        elif kind == "outcome":
            worker.begun = False
            worker.cases += 1
            worker.left.popleft()
            on_outcome(worker.task, value)
        elif kind == "samples":
            on_end(worker.task, value)
        else:
            on_task(worker.task)
            worker.task = None
    for worker in busy.values():
        allowed = limit if worker.begun else max(limit, READING_SECONDS)
        if worker.task is not None and not worker.late and time.monotonic() - worker.since > allowed:
            worker.late = True
            worker.process.kill()


def _replaced(
    worker: _Worker,
    start: Callable[[], _Worker],
    on_outcome: Callable[[Task, Outcome], None],
    on_task: Callable[[Task], None],
) -> _Worker:
    """A new worker for one that died, with what its task has left; the sample that it had is accounted for."""
    worker.process.join()
    task, left = worker.task, worker.left
    assert task is not None
    if left:
        if worker.late:
            verdict, reason = Verdict.TIMEOUT, "" if worker.begun else "making samples"
        else:
            verdict, reason = Verdict.CRASH, _last_words(worker)
        on_outcome(task, Outcome(task.case(left.popleft()), verdict, reason))
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
        lines = [line.strip() for line in file.read()[-4000:].splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line or "what():" in line or "ssertion" in line or "rror:" in line]
    return one_line(f"{name}: {said[-1] if said else (lines[-1] if lines else '')}")


def _give(worker: _Worker, task: Task | None, left: Iterable[int] | None = None, failures: int = 0) -> None:
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


def _context() -> Any:
    """Processes come from one that has torch and the database read, but no device open."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["opinfo.running", "torch.testing._internal.common_methods_invocations"])
    return context


def _live(work: Callable[[Connection], None], pipe: Connection, errors: str) -> None:
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, sys.stderr.fileno())
    os.dup2(log, sys.stdout.fileno())
    faulthandler.enable()
    work(pipe)


def _work(pipe: Connection) -> None:
    """What a worker does."""
    from opinfo import running
    from opinfo.samples import samples_of

    running.prepare()
    while True:
        task, left = pipe.recv()
        try:
            samples = samples_of(task.operator, task.dtype, max(left) + 1)
        except Exception as error:  # noqa: BLE001 - it is the database's, and the table says it
            reason = one_line(f"no samples: {running.first_line(error)}")
            for index in left:
                pipe.send(("outcome", Outcome(task.case(index), Verdict.SKIPPED, reason)))
            pipe.send(("done", None))
            continue
        if len(samples) <= max(left):
            pipe.send(("samples", len(samples)))
        for index in left:
            if index < len(samples):
                pipe.send(("begin", index))
                pipe.send(("outcome", running.run_case(task.case(index), samples[index], task.device)))
        pipe.send(("done", None))

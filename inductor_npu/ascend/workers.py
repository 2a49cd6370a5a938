"""Processes in the environment of Ascend's compiler, one per core; a process that dies costs only its current
kernel.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.errors import BrokenAscendEnvironmentError

_PACKAGE = Path(__file__).parents[1]
# Runs the worker of this very package, whether or not (or in which version) it is installed in the other environment.
# Its folder is not put on sys.path, because the packages beside it, torch among them, are of another environment.
_BOOTSTRAP = """
import importlib.util, runpy, sys
package, sys.argv = sys.argv[1], sys.argv[2:]
spec = importlib.util.spec_from_file_location(
    "inductor_npu", package + "/__init__.py", submodule_search_locations=[package]
)
sys.modules["inductor_npu"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["inductor_npu"])
runpy.run_module(sys.argv[0], run_name="__main__")
"""
# Settings for the user's own Triton and torch are not for the worker's.
_FOREIGN_SETTINGS = ("TRITON_", "TORCH", "PYTHON", "INDUCTOR_NPU_", "ENABLE_", "LD_PRELOAD")
_SETTINGS = {
    "INDUCTOR_NPU_PROVIDER": "none",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "OMP_NUM_THREADS": "1",
    "LLVM_DISABLE_SYMBOLIZATION": "1",  # a crash is told by its words; the stack of a stripped program says nothing
}
_START_SECONDS = 120.0
COMPILER = "inductor_npu.ascend.toolchain.worker"


class WorkerDied(Exception):
    """A worker ended before it answered, or was ended because it took too long (`timed_out`).

    `status` is its exit status (negative: a signal), `output` what it said on standard error meanwhile.
    """

    def __init__(self, status: int, output: str, timed_out: bool) -> None:
        super().__init__(f"worker ended with status {status}")
        self.status = status
        self.output = output
        self.timed_out = timed_out


class WorkersStopped(Exception):
    """The pool was closed before a request was answered."""


class WorkerPool:
    """`size` workers for as many threads; each is started when it is first used, and ends with `close`.

    They run `module`, which answers requests in the way of toolchain/worker.py.
    """

    def __init__(self, environment: AscendEnvironment, size: int, module: str = COMPILER) -> None:
        self._workers = [_Worker(environment, module) for _ in range(size)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """A worker's answer to `request` (see toolchain/worker.py). Any number of threads may call this; those above
        the pool's size wait.

        Raises WorkerDied if the worker dies or does not answer within `seconds`; the next request starts a new one.
        Raises BrokenAscendEnvironmentError if a worker does not start, WorkersStopped after the pool was closed.
        """
        worker = self._idle.get()
        try:
            return worker.ask(request, seconds)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Ends the workers, those that are at work too."""
        for worker in self._workers:
            worker.stop()


class _Worker:
    """One process, started at its first request and again after it died."""

    def __init__(self, environment: AscendEnvironment, module: str) -> None:
        self._environment = environment
        self._module = module
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._busy = threading.Lock()
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (as long-lived as the worker)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        with self._busy:
            if self._stopped:
                raise WorkersStopped
            process = self._process or self._start()
            self._forget_errors()
            return self._exchange(process, f"{json.dumps(request)}\n", seconds)

    def stop(self) -> None:
        """Ends the process; a thread that waits for its answer gets WorkersStopped."""
        self._stopped = True
        if self._process is not None:
            _kill(self._process)
        with self._busy:
            if self._process is not None:
                self._reap(self._process)

    def _start(self) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_SETTINGS)}
        self._forget_errors()
        arguments = [str(_PACKAGE), self._module, str(self._environment.programs)]
        process = subprocess.Popen(
            [str(self._environment.python), "-I", "-c", _BOOTSTRAP, *arguments],
            env={**kept, **_SETTINGS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._process = process
        if self._stopped:
            _kill(process)
        try:
            self._exchange(process, "", _START_SECONDS)
        except WorkerDied as error:
            said = error.output.strip().splitlines()
            reason = f"its compiler process does not start: {said[-1] if said else f'exit status {error.status}'}"
            raise BrokenAscendEnvironmentError(
                environment=self._environment.python, reason=reason, advice="Make it anew with `make ascend-env`"
            ) from error
        return process

    def _forget_errors(self) -> None:
        # The process writes where this file's offset is: the two share it.
        self._errors.seek(0)
        self._errors.truncate()

    def _exchange(self, process: subprocess.Popen[str], line: str, seconds: float) -> dict[str, Any]:
        """Sends `line`, waits for the next line that the worker's protocol knows."""
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:  # a pipe to a dead process
            answer = ""
        finally:
            timer.cancel()
        if answer:
            return json.loads(answer)
        status = self._reap(process)
        if self._stopped:
            raise WorkersStopped
        self._errors.seek(0)
        raise WorkerDied(status, self._errors.read(), late.is_set())

    def _reap(self, process: subprocess.Popen[str]) -> int:
        """Waits for a process that has ended or was killed; what it left in its session is ended too."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays taken until `wait`
        _kill(process)
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what it did not read is of no use to anybody
        self._process = None
        return status


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a worker and the compiler it may be running, which are one session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended

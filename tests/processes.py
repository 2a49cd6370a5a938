"""Runs a piece of Python in a process of its own: for what happens once in a process, such as `import torch`."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import uuid
from dataclasses import dataclass
from pathlib import Path

# Read when Python, torch or a library below it is loaded, which a forked process does not do.
_READ_AT_IMPORT = ("PYTHON", "LD_", "OMP_", "MKL_", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_JOB_ID")
_JOB = "PROCESSES_OF_JOB"  # the variable by which processes of a job are found
_OF_OTHERS = "torch,sympy,networkx"  # and what Dynamo and Inductor import, which know nothing of devices


@dataclass(frozen=True)
class Finished:
    """What a process left behind."""

    returncode: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        """The lines of standard output. Raises AssertionError with both outputs if the process failed."""
        assert self.returncode == 0, f"exit status {self.returncode}\n{self.stdout}\n{self.stderr}"
        return self.stdout.splitlines()


def run_python(code: str, path: Path | None = None, timeout: float = 120, **environment: str) -> Finished:
    """Runs `code` (indented as in the test) in a fresh Python.

    `environment` is added to this process's, less pytest's switches and all of ours but who provides the device and
    where its library is; `path` goes to the front of sys.path.
    """
    inherited = _inherited()
    if path is not None:
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), inherited.get("PYTHONPATH")]))
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def run_job(command: list[str], timeout: float, **environment: str) -> Finished:
    """Runs `command`, which starts processes of its own, such as torchrun; what they print is mixed, as on a terminal,
    in `stdout`. None of them stays, whatever happens: they are found by a variable that they inherit, since torchrun
    puts each rank into a session of its own. Raises TimeoutExpired, once all have been killed.
    """
    name = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        env={**_inherited(), **environment, _JOB: name},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
        for member in _members_of_job(name):
            os.kill(member, signal.SIGKILL)
        process.wait()
    return Finished(process.returncode, output, "")


def _members_of_job(name: str) -> list[int]:
    variable = f"{_JOB}={name}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # another user's, or it has ended since
            continue
        if variable in variables:
            found.append(int(folder.name))
    return found


def run_forked(
    code: str, path: Path | None = None, timeout: float = 120, imported: str = _OF_OTHERS, **environment: str
) -> Finished:
    """As run_python, in a fork of a Python that has imported `imported` (modules with commas between them) and nothing
    of ours: most of a fresh one's time goes into that. What the end of `import torch` does is done first, in the fork:
    calling the entry points of other packages, unless TORCH_DEVICE_BACKEND_AUTOLOAD is "0", and reading TORCH_LOGS.

    Raises ValueError for a variable that torch reads earlier than that: such a test needs run_python.
    """
    early = [name for name in environment if name.startswith(_READ_AT_IMPORT)]
    if early:
        raise ValueError(f"{', '.join(early)}: read before torch is imported; use run_python")
    server = _server(imported)
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "code": textwrap.dedent(code),
            "path": None if path is None else str(path),
            "environment": {**_inherited(), **environment},
            "directory": os.getcwd(),
            "stdout": f"{folder}/stdout",
            "stderr": f"{folder}/stderr",
        }
        returncode = _fork(server, request, timeout)
        return Finished(returncode, Path(folder, "stdout").read_text(), Path(folder, "stderr").read_text())


def _fork(server: subprocess.Popen[str], request: dict[str, object], timeout: float) -> int:
    """The exit status of what `server` forks for `request`. Raises TimeoutExpired, once the fork has been killed."""
    assert server.stdin is not None and server.stdout is not None
    print(json.dumps(request), file=server.stdin, flush=True)
    child = int(server.stdout.readline())
    ended, _, _ = select.select([server.stdout], [], [], timeout)
    if not ended:
        os.kill(child, signal.SIGKILL)
    returncode = int(server.stdout.readline())
    if not ended:
        raise subprocess.TimeoutExpired(str(request["code"]), timeout)
    return returncode


@functools.cache
def _server(imported: str) -> subprocess.Popen[str]:
    """A process that has imported `imported` without ours, and forks as often as it is told to (_SERVER)."""
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, imported],
        env={**_inherited(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    return server


def processor_seconds() -> float:
    """What this process and all that it started have used: those that have ended, those that still run, and what these
    have started and waited for, such as forks.
    """
    ours = os.times()
    children = [int(child) for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()]
    return sum(ours[:4]) + sum(map(_seconds_of, children))


def _seconds_of(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended since
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _inherited() -> dict[str, str]:
    kept = ("INDUCTOR_NPU_PROVIDER", "INDUCTOR_NPU_CACHE_DIR")
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(("INDUCTOR_NPU_", "PYTEST_"))
    }


# Each request is a line of standard input; answered are the fork's number and, when it has ended, its exit status. The
# fork leaves the loop, so that it ends as any Python does, with all that is run at exit.
_SERVER = """
import importlib, json, linecache, os, sys

for name in sys.argv.pop().split(","):
    importlib.import_module(name)

request = None
while request is None and (line := sys.stdin.readline()):
    child = os.fork()
    if child == 0:
        request = json.loads(line)
    else:
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

if request is not None:
    for number, name in enumerate((os.devnull, request["stdout"], request["stderr"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600), number)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    if request["path"] is not None:
        sys.path.insert(1, request["path"])
    # Where who shows a line finds its text, as `python -c` says from 3.13 on.
    linecache.cache["<string>"] = (len(request["code"]), None, request["code"].splitlines(True), "<string>")
    code = compile(request["code"], "<string>", "exec")
    del name, line, child, number, request
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        sys.modules["torch"]._import_device_backends()
    if "TORCH_LOGS" in os.environ:
        sys.modules["torch._logging"]._init_logs()
    exec(code)
"""

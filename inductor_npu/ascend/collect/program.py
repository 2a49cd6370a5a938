"""Runs the user's program in a process of its own, on the embedded NPU, and brings back its kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inductor_npu.ascend.collect.afresh import WITHOUT_CACHED_GRAPHS
from inductor_npu.ascend.collect.child import FUNCTION, MODULE, SCRIPT, Request
from inductor_npu.ascend.collect.collection import Collection
from inductor_npu.errors import NoProgramError
from inductor_npu.providers import PROVIDER_VARIABLE, SIMULATOR, TARGET_VARIABLE

DATA_LIMIT = 64 * 1024 * 1024  # bytes of one launch's storages that are kept to run its kernel again


@dataclass(frozen=True)
class ProgramRun:
    """A program that ran: what was collected, and its exit status (negative: the signal that ended it)."""

    collection: Collection
    status: int


def run_program(
    program: str,
    arguments: Sequence[str],
    target: str,
    folder: Path,
    *,
    is_module: bool = False,
    data_limit: int | None = None,
    backward: bool = True,
) -> ProgramRun:
    """Runs `program` with this Python, its input and output going straight through; collects its kernels in `folder`.

    program: a script's path, `path.py::function`, `package.module:function`, or with `is_module` a module's name.

    No graph is taken from Inductor's caches: its kernels would not say where they come from. Ctrl-C ends the program;
    what it did until then is returned. Raises NoProgramError if there is no such file.
    """
    request = Request(_kind(program, is_module), program, tuple(arguments), str(folder), data_limit, backward)
    chosen = {PROVIDER_VARIABLE: SIMULATOR.name, TARGET_VARIABLE: target}
    # max-autotune, and what is left to the library, are chosen for the chip that is checked, not by this host's times.
    chosen["INDUCTOR_NPU_TUNE_BY"] = os.environ.get("INDUCTOR_NPU_TUNE_BY", "model")
    chosen["INDUCTOR_NPU_TEMPLATES"] = os.environ.get("INDUCTOR_NPU_TEMPLATES", "all")
    command = [sys.executable, "-m", "inductor_npu.ascend.collect.child", request.to_json()]
    status = _wait(subprocess.Popen(command, env={**os.environ, **chosen, **WITHOUT_CACHED_GRAPHS}))
    return ProgramRun(Collection.load(folder), status)


def _kind(program: str, is_module: bool) -> str:
    if is_module:
        return MODULE
    path, separator, _ = program.rpartition("::")
    if not separator and ":" in program and not Path(program).exists():
        return FUNCTION
    if not Path(path or program).is_file():
        raise NoProgramError(name=path or program)
    return FUNCTION if separator else SCRIPT


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a process. Ctrl-C reaches it as well, and it may take its time to end."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue

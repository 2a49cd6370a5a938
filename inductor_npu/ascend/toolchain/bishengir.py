"""Linalg to final HIVM by `bishengir-compile`, without CANN.

As its last step, bishengir-compile hands the final HIVM to `hivmc`, which makes the binary and is part of CANN only. A
stand-in that does nothing lets this step succeed; without one, bishengir-compile would try again with fewer buffers.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from inductor_npu.ascend.kernel import Constant
from inductor_npu.ascend.toolchain.failures import CompileFailure, Stage, failure_of_program
from inductor_npu.ascend.toolchain.options import switches

SECONDS = 120
# Saved by --save-temps: the module after all passes, memory planned, as hivmc gets it.
_FINAL = "module.hivm.opt.mlir"
# bishengir-compile asks for the version and parses it. That of the packaged compiler: nothing has to be compatible
# with less.
STAND_IN_FOR_HIVMC = """#!/bin/sh
# Stands in for CANN's hivmc: says that it is there and makes no binary.
[ "$1" = "--version" ] && echo "hivmc 1.2.0 (000000000000 2026-01-01)"
exit 0
"""
# One kernel keeps one core busy, so that the pool decides how many are used; the output is the same.
_UNTHREADED = "--mlir-disable-threading"
# Keeps the locations of the Linalg in the final HIVM; the code is the same with and without.
_LOCATED = "--enable-debug-info"


class BishengIR:
    """`bishengir-compile` of the folder `programs`; `folder` (the worker's own) gets the stand-in for hivmc."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._program = programs / "bishengir-compile"
        # As the program names it, also in an environment that is reached through a link.
        self._library = f"{programs.resolve().parent / 'lib'}{os.sep}"
        stand_ins = folder / "bin"
        stand_ins.mkdir()
        for name in ("hivmc", "hivmc-a5"):
            (stand_ins / name).write_text(STAND_IN_FOR_HIVMC)
            (stand_ins / name).chmod(0o755)
            _check_runs(stand_ins / name)
        # For a 950 the program calls bishengir-compile-a5, which it looks for on PATH.
        self._environment = {**os.environ, "PATH": os.pathsep.join([str(stand_ins), str(programs), "/usr/bin", "/bin"])}

    def compile(
        self, folder: Path, target: str, options: Mapping[str, Constant] | None = None, seconds: float = SECONDS
    ) -> str:
        """The final HIVM, for the chip `target`, of the Linalg module in `folder`/kernel.mlir, with the kernel's own
        `options`. What was run is written to command.txt there.

        Raises CompileFailure if the compiler refuses the kernel, crashes or does not end within `seconds`.
        """
        flags = [f"--target={target}", *switches(target, options or {}), _UNTHREADED, _LOCATED]
        arguments = ["kernel.mlir", *flags, "--save-temps=.", "-o", "kernel"]
        (folder / "command.txt").write_text(f"{shlex.join([self._program.name, *arguments])}\n")
        status, output = self._run([str(self._program), *arguments], folder, seconds)
        final = folder / _FINAL
        if status != 0 or not final.is_file():
            raise failure_of_program(Stage.BISHENGIR, self._program.name, status, output)
        return final.read_text().replace(self._library, "")

    def _run(self, command: Sequence[str], folder: Path, seconds: float) -> tuple[int, str]:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            message = f"{self._program.name} did not end within {seconds:g} s"
            raise CompileFailure(Stage.BISHENGIR, message, crashed=True) from error
        return done.returncode, f"{done.stdout}{done.stderr}"


def _check_runs(program: Path) -> None:
    """Raises RuntimeError if a program in the temporary directory cannot run: every kernel would seem refused."""
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = f"no program can be run in {program.parents[2]}; set TMPDIR to a folder where it can"
        raise RuntimeError(f"{reason} ({error})") from error

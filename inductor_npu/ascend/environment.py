"""Finds Ascend's compiler: the Python environment that has `triton-ascend` and `ascendnpu-ir`.

`triton-ascend` takes the name `triton`, so the compiler usually lives in an environment of its own, which
`make ascend-env` makes. Nothing is imported from it here: a process of its own reports its contents.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_npu.ascend.toolchain import contents
from inductor_npu.errors import (
    AscendPlatformError,
    BrokenAscendEnvironmentError,
    NoAscendEnvironmentError,
    UnknownAscendTargetError,
)

VARIABLE = "INDUCTOR_NPU_ASCEND_ENV"
COMMAND = "make ascend-env"
FOLDER = ".venv-ascend"
# What the two packages have wheels for: triton-ascend 3.2.0 CPython 3.9 to 3.11, ascendnpu-ir 1.2.0 CPython 3.10 and
# later.
PYTHONS = ("3.10", "3.11")
MACHINES = ("x86_64", "aarch64")
_REQUIRED = ("triton-ascend", "ascendnpu-ir", "torch")
_ADAPTER = "triton-adapter-opt"
_COMPILERS = ("bishengir-compile", "bishengir-compile-a5")
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class AscendEnvironment:
    """A Python with Ascend's compiler. `versions` are those of python, triton-ascend, ascendnpu-ir and torch;
    `programs` is the folder of bishengir-compile, `adapter` the path of triton-adapter-opt.
    """

    python: Path
    versions: dict[str, str]
    programs: Path
    adapter: Path

    @functools.cached_property
    def identity(self) -> str:
        """Hash of all that decides what a kernel is compiled to, the kernel and the chip excepted."""
        digest = hashlib.sha256(json.dumps(self.versions, sort_keys=True).encode())
        for path in sorted((_PACKAGE / "ascend" / "toolchain").glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()[:20]

    @functools.cached_property
    def targets(self) -> tuple[str, ...]:
        """The chips that bishengir-compile knows, as it names them, in its own order.

        Raises BrokenAscendEnvironmentError if it does not run.
        """
        listing = _run([str(self.programs / "bishengir-compile"), "--help"], self.python)
        section = re.search(r"--target=<value>.*\n((?:\s+=\S.*\n)+)", listing)
        names = re.findall(r"=(Ascend\S+)", section[1]) if section else []
        if not names:
            raise BrokenAscendEnvironmentError(
                environment=self.python, reason="bishengir-compile --help lists no chips", advice=_remake()
            )
        return tuple(names)

    def check_target(self, name: str) -> None:
        """Raises UnknownAscendTargetError, naming the known chips, if the compiler does not know `name`."""
        if name not in self.targets:
            raise UnknownAscendTargetError(name=name, known=", ".join(self.targets))


def find_environment() -> AscendEnvironment:
    """The environment to compile with: the one that INDUCTOR_NPU_ASCEND_ENV names (a folder, or a Python), else this
    Python's own if it has the compiler, else `.venv-ascend` in the project's checkout or the current directory.

    Raises NoAscendEnvironmentError if there is none, BrokenAscendEnvironmentError if the one there is lacks something,
    AscendPlatformError if the compiler does not exist for this machine.
    """
    _check_platform(sys.platform, platform.machine())
    if named := os.environ.get(VARIABLE):
        return _open(Path(named).expanduser())
    own = contents.describe()
    if _has_compiler(own):
        return _checked(Path(sys.executable), own)
    folders = [root / FOLDER for root in dict.fromkeys((_PACKAGE.parent, Path.cwd()))]
    for folder in folders:
        if folder.is_dir():
            return _open(folder)
    looked = [f"this Python ({sys.executable})", *map(str, folders)]
    raise NoAscendEnvironmentError(looked=", ".join(looked), command=make_command(platform.python_version()))


def make_command(python: str) -> str:
    """The command that makes the environment, run by Python version `python`."""
    supported = python.rpartition(".")[0] in PYTHONS
    return COMMAND if supported else f"{COMMAND} PYTHON=python{PYTHONS[-1]}"


def _check_platform(system: str, machine: str) -> None:
    if system != "linux" or machine not in MACHINES:
        supported = f"Linux on {' and '.join(MACHINES)} with CPython {' and '.join(PYTHONS)}"
        raise AscendPlatformError(supported=supported, system=system, machine=machine)


def _has_compiler(found: dict[str, Any]) -> bool:
    return all(found["versions"][package] for package in ("triton-ascend", "ascendnpu-ir"))


def _open(path: Path) -> AscendEnvironment:
    """The environment whose folder or Python `path` is."""
    python = path if path.is_file() else path / "bin" / "python"
    if not python.is_file():
        raise BrokenAscendEnvironmentError(environment=path, reason="it has no bin/python", advice=_remake())
    answer = _run([str(python), "-I", contents.__file__], python)
    return _checked(python, json.loads(answer))


def _checked(python: Path, found: dict[str, Any]) -> AscendEnvironment:
    """The environment of what `contents.describe` found in `python`, if all is there and fits together."""

    def broken(reason: str, advice: str = _remake()) -> BrokenAscendEnvironmentError:
        return BrokenAscendEnvironmentError(environment=python, reason=reason, advice=advice)

    versions = found["versions"]
    if lacking := [package for package in _REQUIRED if not versions[package]]:
        minor = found["python"].rpartition(".")[0]
        if found["implementation"] != "CPython" or minor not in PYTHONS:
            raise broken(
                f"it lacks {', '.join(lacking)}, and its Python is {found['implementation']} {found['python']}; the "
                f"compiler exists for CPython {' and '.join(PYTHONS)}"
            )
        raise broken(f"it lacks {', '.join(lacking)}")
    if versions["triton"]:
        raise broken(f"upstream's triton {versions['triton']} is installed over triton-ascend; they share one folder")
    programs, adapter = Path(found["programs"]), Path(found["adapter"]) / _ADAPTER
    for program in (*(programs / name for name in _COMPILERS), adapter):
        if not program.is_file():
            raise broken(f"{program} is missing")
        if not os.access(program, os.X_OK):
            raise broken(f"{program} may not be executed", f"Give it the run bit: chmod +x {program}")
    kept = {"python": found["python"], **{package: versions[package] for package in _REQUIRED}}
    return AscendEnvironment(python, kept, programs, adapter)


def _run(command: Sequence[str], environment: Path) -> str:
    """Standard output of a short command of the environment."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokenAscendEnvironmentError(environment=environment, reason=str(error), advice=_remake()) from error
    if done.returncode != 0:
        reason = f"{Path(command[0]).name} ended with status {done.returncode}: {done.stderr.strip()[-300:]}"
        raise BrokenAscendEnvironmentError(environment=environment, reason=reason, advice=_remake())
    return done.stdout


def _remake() -> str:
    return f"Remove it and make it anew with `{make_command(platform.python_version())}`"

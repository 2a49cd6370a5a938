"""Builds the stand-in CANN for the torch_npu that is installed: libraries, headers, programs, as CANN lays them out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from inductor_npu.ascend.toolchain.bishengir import STAND_IN_FOR_HIVMC
from tests.ascend_seat import symbols
from tests.ascend_seat.seat import BUILT, CANN, HERE, ROOT, package

_SOURCES = HERE / "cann"
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-pthread", "-Wall")
_MAIN = "libascendcl.so"  # all symbols are in this one; the others are links to it

# Libraries that no wheel needs: torch_npu opens two when it looks for a function, triton-ascend's launchers are linked
# with the third.
_LOADED = ("libhcomm.so", "libopapi.so", "libruntime.so")


def build() -> None:
    """Makes the folder `CANN` anew, unless it is of these sources and this torch_npu."""
    made_of = _state()
    stamp = CANN / "made-of"
    if stamp.is_file() and stamp.read_text() == made_of:
        return
    shutil.rmtree(CANN, ignore_errors=True)
    for folder in ("bin", "compiler", "include", "lib64", "objects", "opp", "runtime", "tools"):
        (CANN / folder).mkdir(parents=True)
    torch_npu = package("torch_npu")
    _libraries(torch_npu)
    shutil.copytree(torch_npu / "include" / "acl", CANN / "include" / "acl")
    shutil.copytree(torch_npu / "include" / "profiling", CANN / "include" / "profiling")
    shutil.copytree(_SOURCES / "include" / "runtime", CANN / "include" / "runtime")
    _programs()
    stamp.write_text(made_of)


def _state() -> str:
    """What the stand-in is made of, as text."""
    files = [path for path in sorted(_SOURCES.rglob("*")) if path.is_file()]
    texts = [f"{path.name}\n{path.read_text()}" for path in [*files, Path(__file__)]]
    version = (package("torch_npu") / "version.py").read_text()
    return "\n".join([sys.executable, str(package("torch_npu")), version, *texts])


def _libraries(torch_npu: Path) -> None:
    objects = []
    for source in sorted(_SOURCES.glob("*.cpp")):
        objects.append(_compiled(source, f"-I{_SOURCES}", f"-I{torch_npu / 'include'}"))
    have = {
        line.split()[-1]
        for path in objects
        for line in _run("nm", "--defined-only", "--extern-only", str(path)).splitlines()
        if line.split()
    }
    wanted = symbols.wanted(torch_npu, package("torch"))
    missing = CANN / "missing.cpp"
    missing.write_text(_stubs([symbol for symbol in wanted.symbols if symbol not in have]))
    objects.append(_compiled(missing, f"-I{_SOURCES}"))
    library = CANN / "lib64" / _MAIN
    _run("g++", "-shared", "-pthread", "-o", str(library), *map(str, objects), "-ldl")
    for name in sorted({*wanted.libraries, *_LOADED} - {_MAIN}):
        (CANN / "lib64" / name).symlink_to(_MAIN)


def _compiled(source: Path, *flags: str) -> Path:
    path = CANN / "objects" / f"{source.stem}.o"
    _run("g++", *_FLAGS, *flags, "-c", str(source), "-o", str(path))
    return path


def _stubs(names: list[str]) -> str:
    """A function for each symbol, called by a name of its own, as some symbols are C++ names."""
    lines = ["// Functions of CANN that the stand-in does not have (build.py writes this).", '#include "standin.h"', ""]
    lines.append('extern "C" {')
    for number, name in enumerate(names):
        lines.append(f'long missing{number}() __asm__("{name}");')
        lines.append(f'long missing{number}() {{ return standin::missing("{name}"); }}')
    return "\n".join([*lines, "}", ""])


def _programs() -> None:
    _script(CANN / "bin" / "bishengir-compile", f"#!{sys.executable}", _COMPILER.format(root=str(ROOT)))
    # Who asks for the assembler's targets learns that it is there.
    _script(CANN / "bin" / "bisheng", "#!/bin/sh", '[ "$1" = "-print-targets" ] && echo hiipu64\nexit 0')
    (CANN / "tools" / "hivmc").write_text(STAND_IN_FOR_HIVMC)
    (CANN / "tools" / "hivmc").chmod(0o755)


_COMPILER = """import sys
sys.path.insert(0, {root!r})
from tests.ascend_seat.compiler import main
sys.exit(main(sys.argv[1:]))"""


def _script(path: Path, interpreter: str, text: str) -> None:
    path.write_text(f"{interpreter}\n{text}\n")
    path.chmod(0o755)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    BUILT.mkdir(parents=True, exist_ok=True)
    build()
    print(f"stand-in CANN: {CANN}")

"""The processor that kernels are made for, and the programs that stand for it on this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "aarch64"
RUNNER = Path(__file__).with_name("runner.cpp")
SORT = ROOT / "inductor_npu" / "simulator" / "device" / "csrc" / "kernel_sort.cpp"
SYSROOT = Path("/usr/aarch64-linux-gnu")  # where Debian's cross compiler has that processor's libraries

TRIPLE = "aarch64-unknown-linux-gnu"
CPU = "tsv110"  # Kunpeng 920, the host of many Ascend servers
FEATURES = ("neon", "fp-armv8", "fullfp16", "dotprod", "lse")
COMPILER = "aarch64-linux-gnu-g++"
_EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")


def emulator() -> list[str]:
    """The command that runs a program of that processor."""
    return [_find(*_EMULATORS), "-L", str(SYSROOT)]


def compile_cpp(target: Path, *arguments: str) -> None:
    """Has the cross compiler make `target`. Raises subprocess.CalledProcessError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([_find(COMPILER), *arguments, "-o", str(target)], check=True, capture_output=True, text=True)


def _find(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SystemExit(f"{names[0]} is not installed; run: apt-get install g++-aarch64-linux-gnu qemu-user-static")
    return found


@functools.cache
def runner() -> Path:
    """The program of `runner.cpp`, built for this process."""
    program = BUILT / f"runner-{os.getpid()}"
    # Its symbols are there for kernels, which call the runtime's sort.
    compile_cpp(program, "-O2", "-std=c++20", "-rdynamic", f"-I{SORT.parent}", str(RUNNER), str(SORT), "-ldl")
    return program

"""What the libraries of a torch_npu wheel want of CANN: libraries by name, and symbols that nothing else defines."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Where the C++ and C run-time libraries are is the linker's knowledge; g++ says it for each.
_SYSTEM = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1")


@dataclass(frozen=True)
class Wanted:
    """`libraries` are file names; `symbols` are names as the linker knows them. Both sorted."""

    libraries: tuple[str, ...]
    symbols: tuple[str, ...]


def wanted(torch_npu: Path, torch: Path) -> Wanted:
    """What the libraries in the folder `torch_npu` want that is neither there, nor in the folder `torch`, nor the
    system's. A weak symbol may be missing, and is not wanted.
    """
    libraries = sorted(torch_npu.rglob("*.so*"))
    loaders = [path for folder in ("/lib64", "/lib") for path in Path(folder).glob("ld-linux-*")]
    system = [*map(_found_by_the_compiler, _SYSTEM), *loaders]
    known = [*libraries, *sorted((torch / "lib").glob("*.so*")), *system]
    defined = {symbol for path in known for symbol in _symbols(path, "--defined-only")}
    undefined = {symbol for path in libraries for symbol in _symbols(path, "--undefined-only", kinds="U")}
    needed = {name for path in libraries for name in _needed(path)}
    missing = {symbol for symbol in undefined - defined if not symbol.startswith(("Py", "_Py"))}
    there = {path.name for path in known}.union(_SYSTEM)
    return Wanted(tuple(sorted(needed - there)), tuple(sorted(missing)))


def _symbols(path: Path, which: str, kinds: str = "") -> Iterable[str]:
    for line in _output("nm", "-D", which, str(path)).splitlines():
        *_, kind, name = line.split()
        if not kinds or kind in kinds:
            yield name.split("@")[0]


def _needed(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "-d", str(path)))


def _found_by_the_compiler(name: str) -> Path:
    return Path(_output("g++", f"-print-file-name={name}").strip()).resolve()


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

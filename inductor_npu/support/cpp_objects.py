"""Objects of C++ sources over torch. Each is kept by the hash of what it is made of, so that only changed sources are
compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from inductor_npu.support import host_compiler


@dataclass(frozen=True)
class Compilation:
    """How sources are compiled. flags: options of the compiler. headers: folders of our headers, which are part of an
    object's identity. includes: folders of others' headers, whose versions are. kept: the folder of objects.
    """

    compiler: Path
    flags: tuple[str, ...]
    headers: tuple[Path, ...]
    includes: tuple[Path, ...]
    kept: Path

    def object_of(self, source: Path) -> Path:
        """Where the object of `source` is kept, made or not."""
        texts = [path.read_bytes() for path in with_headers(source, self.headers)]
        facts = f"{self.compiler} {self.compiler.stat().st_mtime_ns}".encode()
        return self.kept / f"{source.stem}-{digest([*identity(self.flags), facts, *texts])}.o"

    def compile(self, source: Path) -> Path:
        """The object of `source`, compiled unless it is kept. Raises host_compiler.CompilerError."""
        target = self.object_of(source)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            folders = [*(f"-I{path}" for path in self.headers), *(f"-isystem{path}" for path in self.includes)]
            command = [str(self.compiler), *self.flags, *folders, "-c", str(source)]
            host_compiler.run_and_rename(command, target)
        return target


def with_headers(source: Path, folders: Sequence[Path]) -> list[Path]:
    """`source` and the headers of `folders` that it includes, directly or not."""
    found = [source]
    for path in found:  # grows while we go
        names = re.findall(r'^\s*#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)
        candidates = [folder / name for name in names for folder in folders]
        found += [header for header in candidates if header.exists() and header not in found]
    return found


def compile_all(sources: Sequence[tuple[Compilation, Path]]) -> list[Path]:
    """The object of each source, as many compilers side by side as there are cores (MAX_JOBS says otherwise). Raises
    host_compiler.CompilerError.
    """
    with ThreadPoolExecutor(jobs()) as pool:
        return list(pool.map(lambda pair: pair[0].compile(pair[1]), sources))


def link(
    compiler: Path, objects: Sequence[Path], library: Path, libraries: Sequence[str], flags: Sequence[str] = ()
) -> None:
    """Links `library` of `objects` and of torch's `libraries`. It appears at once and whole, by a rename. Raises
    host_compiler.CompilerError.
    """
    of_torch = [f"-L{torch_libraries()}", *(f"-l{name}" for name in libraries)]
    command = [str(compiler), "-shared", "-pthread", *map(str, objects), *of_torch, *flags, *_loaded_cxx_runtime()]
    host_compiler.run_and_rename(command, library)


def jobs() -> int:
    """How many compilers run side by side."""
    return max(1, int(os.environ.get("MAX_JOBS") or len(os.sched_getaffinity(0))))


def torch_flags() -> list[str]:
    """Options without which code does not fit this torch."""
    return [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]


def torch_includes() -> list[Path]:
    """The folders of torch's headers."""
    include = Path(torch.__file__).parent / "include"
    return [include, include / "torch/csrc/api/include"]


def torch_libraries() -> Path:
    """The folder of torch's libraries."""
    return Path(torch.__file__).parent / "lib"


def python_includes() -> Path:
    """The folder of Python's headers."""
    return Path(sysconfig.get_paths()["include"])


def identity(flags: Iterable[str]) -> list[bytes]:
    """What an object that is compiled with `flags` depends on besides its sources."""
    soabi = sysconfig.get_config_var("SOABI")
    return [f"{torch.__version__} {torch.version.git_version} {soabi}".encode(), " ".join(flags).encode()]


def digest(parts: Iterable[bytes]) -> str:
    """A short hash of `parts`, which cannot be mistaken for other parts with the same bytes."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()[:20]


def _loaded_cxx_runtime() -> list[str]:
    """The C++ runtime that torch uses in this process. It is linked by name, ahead of the compiler's own: exceptions
    cannot cross from torch to a library with another copy, which a compiler that links its runtime statically makes.
    """
    with open("/proc/self/maps") as maps:
        paths = [fields[5] for line in maps if len(fields := line.split()) == 6]
    return sorted({path for path in paths if Path(path).name.startswith("libstdc++.so")})[:1]

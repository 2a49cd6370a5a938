"""Builds and loads the C++ device of the embedded NPU.

There are two libraries: the runtime, which knows no Python, so that C++ programs can link it (docs/export.md), and the
extension module `_C` over it, made of csrc/python. They are built once for each combination of sources, torch, Python
and compiler, under a lock, into the user's cache directory (support/user_cache.py; `INDUCTOR_NPU_CACHE_DIR` chooses
another one). Loading existing libraries imports nothing but torch. Building needs only a C++ compiler: no ninja, no
setuptools. Objects are stored by the hash of their sources, so that only changed ones are compiled again.

`python -m inductor_npu.simulator.device` builds them explicitly.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import torch

from inductor_npu.errors import DeviceBuildError, NoCompilerError, NpuWarning
from inductor_npu.simulator.device import allocator_settings
from inductor_npu.simulator.device.settings import device_settings
from inductor_npu.support import host_compiler
from inductor_npu.support.user_cache import cache_directory

_SOURCES = Path(__file__).parent / "csrc"
_MODULE = "inductor_npu.simulator.device._C"
_RUNTIME = "libinductor_npu.so"  # also its soname, by which _C and the kernels of packages find it
_OF_PYTHON = "python"  # the folder of what is part of _C
_COMPILE_FLAGS = (
    "-O2",
    "-std=c++20",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wno-interference-size",
)
# Whoever links the runtime uses its symbols; calls within it stay within it.
_RUNTIME_FLAGS = ("-fvisibility=default", "-fvisibility-inlines-hidden", "-fno-semantic-interposition")
_LIBRARIES = ("c10", "torch_cpu", "torch")
_SECONDS_A_SOURCE = 6  # on one slow core, for the message only

_load_lock = threading.Lock()


def load() -> ModuleType:
    """The extension module `_C`, built first if need be, registered with PyTorch and configured.

    Starts no thread and takes no memory: that is for the first use of the device.

    A library that does not load, as after a crash while it was written, is built again, with a warning.

    Raises NoCompilerError, DeviceBuildError or CacheDirectoryError if it must be built and cannot be,
    DeviceSettingError if the environment asks for what cannot be.
    """
    with _load_lock:
        if _MODULE in sys.modules:
            return sys.modules[_MODULE]
        path = build()
        try:
            module = host_compiler.import_library(_MODULE, path)
        except ImportError as error:
            warnings.warn(f"{path} is damaged and built again ({error})", NpuWarning, stacklevel=2)
            for library in (path, path.with_name(_RUNTIME)):
                library.unlink(missing_ok=True)
            module = host_compiler.import_library(_MODULE, build())
        module.configure(**device_settings())
        allocator_settings.apply()
        sys.modules[_MODULE] = module
        return module


def is_built() -> bool:
    """Whether `load` finds the library and need not build it."""
    return _find_library(host_compiler.find()) is not None


def loaded() -> ModuleType | None:
    """The extension module, if this process has loaded it."""
    return sys.modules.get(_MODULE)


def can_load() -> bool:
    """Whether `load` can be expected to succeed: the library is loaded or built, or there is a compiler to build it."""
    return loaded() is not None or host_compiler.find() is not None or is_built()


def runtime_library() -> Path:
    """The runtime without Python, which C++ programs link, built first if need be. Raises as `build`."""
    return build().with_name(_RUNTIME)


def include_directory() -> Path:
    """Where the headers for C++ programs are."""
    return _SOURCES / "include"


def build() -> Path:
    """Builds the libraries unless they are there; returns the path of `_C`. Of several processes one builds and the
    others wait.

    Raises NoCompilerError if there is no C++ compiler, DeviceBuildError if compiling fails, CacheDirectoryError if the
    result cannot be kept.
    """
    compiler = host_compiler.find()
    if library := _find_library(compiler):
        return library
    if compiler is None:
        raise NoCompilerError(tried=", ".join(host_compiler.names()))
    library = _library_path(compiler)
    return host_compiler.build_once(library, lambda: _build_library(compiler, library))


def _library_path(compiler: Path) -> Path:
    # The compiler by its file, not by asking it: starting a process costs more than loading the library.
    facts = compiler.stat()
    identity = _digest([str(compiler).encode(), f"{facts.st_size} {facts.st_mtime_ns}".encode()])
    return _build_directory() / identity / "_C.so"


def _find_library(compiler: Path | None) -> Path | None:
    """The built library; without a compiler, whichever compiler built it."""
    if compiler is None:
        return next(iter(sorted(_build_directory().glob("*/_C.so"))), None)
    library = _library_path(compiler)
    return library if library.exists() else None


def _build_directory() -> Path:
    sources = [part for path in _source_files() for part in (_name(path).encode(), path.read_bytes())]
    return cache_directory() / "device" / _digest([*_environment(), *sources])


def _source_files() -> list[Path]:
    return sorted(path for path in _SOURCES.rglob("*") if path.suffix in (".cpp", ".h"))


def _name(source: Path) -> str:
    return source.relative_to(_SOURCES).as_posix()


def _is_of_python(source: Path) -> bool:
    return source.relative_to(_SOURCES).parts[0] == _OF_PYTHON


def _environment() -> list[bytes]:
    """What a compiled object depends on besides its sources."""
    soabi = sysconfig.get_config_var("SOABI")
    flags = [*_compile_flags(), *_RUNTIME_FLAGS]
    return [f"{torch.__version__} {torch.version.git_version} {soabi}".encode(), " ".join(flags).encode()]


def _compile_flags() -> list[str]:
    return [*_COMPILE_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:20]


def _jobs() -> int:
    return max(1, int(os.environ.get("MAX_JOBS") or len(os.sched_getaffinity(0))))


def _build_library(compiler: Path, library: Path) -> None:
    """Compiles what changed and links. Each library appears at once and whole, by a rename, `_C` last."""
    sources = [path for path in _source_files() if path.suffix == ".cpp"]
    objects = [_object_path(compiler, source) for source in sources]
    missing = [(source, target) for source, target in zip(sources, objects) if not target.exists()]
    estimate = max(1, round(len(missing) / _jobs() * _SECONDS_A_SOURCE))
    _say(f"building the embedded NPU's device (once, about {estimate} s) ...")
    began = time.monotonic()
    with ThreadPoolExecutor(_jobs()) as pool:
        list(pool.map(lambda pair: _compile(compiler, *pair), missing))
    of_python = [target for source, target in zip(sources, objects) if _is_of_python(source)]
    _link_runtime(compiler, [target for target in objects if target not in of_python], library.with_name(_RUNTIME))
    _link_module(compiler, of_python, library)
    _say(f"built in {time.monotonic() - began:.0f} s: {library}")


def _say(text: str) -> None:
    print(f"inductor-npu: {text}", file=sys.stderr, flush=True)


def _object_path(compiler: Path, source: Path) -> Path:
    """Where the object of `source` is kept: it depends on its text and on our headers that it includes."""
    texts = [path.read_bytes() for path in _with_headers(source)]
    facts = f"{compiler} {compiler.stat().st_mtime_ns}".encode()
    key = _digest([*_environment(), facts, *texts])
    return cache_directory() / "device" / "objects" / f"{source.stem}-{key}.o"


def _with_headers(source: Path) -> list[Path]:
    """`source` and our headers that it includes, directly or not."""
    found = [source]
    for path in found:  # grows while we go
        names = re.findall(r'^\s*#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)
        candidates = [folder / name for name in names for folder in (_SOURCES, include_directory())]
        found += [header for header in candidates if header.exists() and header not in found]
    return found


def _compile(compiler: Path, source: Path, target: Path) -> None:
    torch_include = Path(torch.__file__).parent / "include"
    includes = [torch_include, torch_include / "torch/csrc/api/include"]
    flags = _compile_flags()
    if _is_of_python(source):
        includes.append(Path(sysconfig.get_paths()["include"]))
    else:
        flags += _RUNTIME_FLAGS
    includes.append(torch_include / "kineto")  # last: its names are common ones
    target.parent.mkdir(parents=True, exist_ok=True)
    ours = [f"-I{_SOURCES}", f"-I{include_directory()}"]
    command = [str(compiler), *flags, *ours, *(f"-isystem{path}" for path in includes), "-c", str(source)]
    _run_and_rename(command, target, f"compiling {_name(source)}")


def _link_runtime(compiler: Path, objects: Sequence[Path], library: Path) -> None:
    flags = [f"-Wl,-soname,{_RUNTIME}", "-Wl,-Bsymbolic-functions", f"-Wl,-rpath,{_torch_libraries()}", "-ldl"]
    _link(compiler, objects, library, [], flags)


def _link_module(compiler: Path, objects: Sequence[Path], library: Path) -> None:
    flags = [f"-L{library.parent}", f"-l:{_RUNTIME}", "-Wl,-rpath,$ORIGIN"]
    _link(compiler, objects, library, ["torch_python"], flags)


def _link(
    compiler: Path, objects: Sequence[Path], library: Path, more_of_torch: Sequence[str], flags: Sequence[str]
) -> None:
    libraries = [f"-L{_torch_libraries()}", *(f"-l{name}" for name in (*_LIBRARIES, *more_of_torch)), *flags]
    command = [str(compiler), "-shared", "-pthread", *map(str, objects), *libraries, *_loaded_cxx_runtime()]
    _run_and_rename(command, library, f"linking {library.name}")


def _torch_libraries() -> Path:
    return Path(torch.__file__).parent / "lib"


def _loaded_cxx_runtime() -> list[str]:
    """The C++ runtime that torch uses in this process. It is linked by name, ahead of the compiler's own: exceptions
    cannot cross from torch to a library with another copy, which a compiler that links its runtime statically makes.
    """
    with open("/proc/self/maps") as maps:
        paths = [fields[5] for line in maps if len(fields := line.split()) == 6]
    return sorted({path for path in paths if Path(path).name.startswith("libstdc++.so")})[:1]


def _run_and_rename(command: Sequence[str], target: Path, step: str) -> None:
    try:
        host_compiler.run_and_rename(command, target)
    except host_compiler.CompilerError as error:
        raise DeviceBuildError(step=step, command=" ".join(error.command), output=error.output) from error

"""Builds and loads the device npu in C++: csrc, and the sources of the provider's runtime (runtime.py).

There are two libraries: the runtime, which knows no Python, so that C++ programs can link it, and runs packages
(docs/export.md), and the extension module `_C` over it, made of the folders `python`. They are built once for each
combination of sources, torch, Python and compiler, under a lock, into the user's cache (support/user_cache.py;
`INDUCTOR_NPU_CACHE_DIR` chooses another one). Loading existing libraries imports nothing but torch. Building needs only
a C++ compiler: no ninja, no setuptools.

`python -m inductor_npu.device` builds them explicitly.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from inductor_npu import package_runtime, providers
from inductor_npu.device import allocator_settings
from inductor_npu.device.runtime import Runtime
from inductor_npu.errors import DeviceBuildError, NoCompilerError, NpuWarning
from inductor_npu.support import cpp_objects, host_compiler
from inductor_npu.support.user_cache import cache_directory

_OF_ALL = Path(__file__).parent / "csrc"
_MODULE = "inductor_npu.device._C"
_RUNTIME = "libinductor_npu.so"  # also its soname, by which _C and the kernels of packages find it
_OF_PYTHON = "python"  # the folders with what is part of _C
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
        return loaded() or _load(build())


def load_if_built() -> None:
    """`load`, unless the libraries must be built first. Sources are hashed once to find that out and to load them."""
    with _load_lock:
        path = None if loaded() else _find_library(host_compiler.find())
        if path is not None:
            _load(path)


def _load(path: Path) -> ModuleType:
    try:
        module = host_compiler.import_library(_MODULE, path)
    except ImportError as error:
        warnings.warn(f"{path} is damaged and built again ({error})", NpuWarning, stacklevel=3)
        for library in (path, path.with_name(_RUNTIME)):
            library.unlink(missing_ok=True)
        module = host_compiler.import_library(_MODULE, build())
    _runtime().loaded(module)
    module.configure(**settings())
    allocator_settings.apply()
    module.fill_allocations(allocator_settings.fills_allocations())
    sys.modules[_MODULE] = module
    return module


def settings() -> dict[str, Any]:
    """The arguments of `_C.configure`. Raises what the runtime finds wrong in the environment."""
    return _runtime().settings()


def _runtime() -> Runtime:
    """The one that this process's provider has."""
    return providers.device_runtime()


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
    return package_runtime.INCLUDES


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
        raise NoCompilerError(device=_runtime().name, tried=", ".join(host_compiler.names()))
    library = _library_path(compiler)
    return host_compiler.build_once(library, lambda: _build_library(compiler, library))


def _library_path(compiler: Path) -> Path:
    # The compiler by its file, not by asking it: starting a process costs more than loading the library.
    facts = compiler.stat()
    identity = [str(compiler).encode(), f"{facts.st_size} {facts.st_mtime_ns}".encode()]
    return _build_directory() / cpp_objects.digest(identity) / "_C.so"


def _find_library(compiler: Path | None) -> Path | None:
    """The built library; without a compiler, whichever compiler built it."""
    if compiler is None:
        return next(iter(sorted(_build_directory().glob("*/_C.so"))), None)
    library = _library_path(compiler)
    return library if library.exists() else None


def _build_directory() -> Path:
    sources = [part for folder in _folders() for path in _files(folder) for part in _named(path, folder)]
    flags = [*_compile_flags(), *_RUNTIME_FLAGS]
    return cache_directory() / "device" / cpp_objects.digest([*cpp_objects.identity(flags), *sources])


def _folders() -> tuple[Path, ...]:
    return (_OF_ALL, *_runtime().sources)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h"))


def _named(path: Path, folder: Path) -> tuple[bytes, bytes]:
    return path.relative_to(folder).as_posix().encode(), path.read_bytes()


def _compile_flags() -> list[str]:
    return [*_COMPILE_FLAGS, *cpp_objects.torch_flags()]


def _build_library(compiler: Path, library: Path) -> None:
    """Compiles what changed and links. Each library appears at once and whole, `_C` last."""
    folders = _folders()
    sources = [path for folder in folders for path in _files(folder) if path.suffix == ".cpp"]
    of_python = [path for path in sources if any(folder / _OF_PYTHON in path.parents for folder in folders)]
    of_runtime = [path for path in sources if path not in of_python]
    how_runtime, how_python = _compilation(compiler, _RUNTIME_FLAGS), _compilation(compiler, (), for_python=True)
    pairs = [*((how_runtime, source) for source in of_runtime), *((how_python, source) for source in of_python)]
    missing = sum(not how.object_of(source).exists() for how, source in pairs)
    estimate = max(1, round(missing / cpp_objects.jobs() * _SECONDS_A_SOURCE))
    _say(f"building {_runtime().name} (once, about {estimate} s) ...")
    began = time.monotonic()
    try:
        objects = cpp_objects.compile_all(pairs)
        _link(compiler, objects[: len(of_runtime)], objects[len(of_runtime) :], library)
    except host_compiler.CompilerError as error:
        command = " ".join(error.command)
        raise DeviceBuildError(
            device=_runtime().name, step=_step(error.command), command=command, output=error.output
        ) from error
    _say(f"built in {time.monotonic() - began:.0f} s: {library}")


def _say(text: str) -> None:
    print(f"inductor-npu: {text}", file=sys.stderr, flush=True)


def _step(command: Sequence[str]) -> str:
    """What a command was for, in words."""
    if "-c" not in command:
        return f"linking {Path(command[-1]).stem}"
    source = Path(command[command.index("-c") + 1])
    return f"compiling {next(source.relative_to(folder) for folder in _folders() if folder in source.parents)}"


def _compilation(compiler: Path, more_flags: Sequence[str], for_python: bool = False) -> cpp_objects.Compilation:
    torch_includes = cpp_objects.torch_includes()
    python = [cpp_objects.python_includes()] if for_python else []
    kineto = torch_includes[0] / "kineto"  # last: its names are common ones
    return cpp_objects.Compilation(
        compiler,
        flags=(*_compile_flags(), *more_flags),
        headers=(*_folders(), *_runtime().includes()),
        includes=(*torch_includes, *python, kineto),
        kept=cache_directory() / "device" / "objects",
    )


def _link(compiler: Path, of_runtime: Sequence[Path], of_python: Sequence[Path], module: Path) -> None:
    path = f"-Wl,-rpath,{cpp_objects.torch_libraries()}"
    runtime = _runtime()
    flags = [f"-Wl,-soname,{_RUNTIME}", "-Wl,-Bsymbolic-functions", path, *runtime.link_flags()]
    cpp_objects.link(compiler, of_runtime, module.with_name(_RUNTIME), (*_LIBRARIES, *runtime.libraries), flags)
    flags = [f"-L{module.parent}", f"-l:{_RUNTIME}", "-Wl,-rpath,$ORIGIN"]
    cpp_objects.link(compiler, of_python, module, (*_LIBRARIES, "torch_python"), flags)

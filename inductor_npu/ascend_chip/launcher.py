"""How kernels reach torch_npu's streams: one C++ module for all signatures. Ascend's Triton compiles one for each,
which takes most of the time of a kernel's first compile.

Triton's driver calls `launcher_of` with a kernel (see driver.py). Kernels that need unsupported features (locks between
blocks, prints, SIMT) keep the launcher of Ascend's Triton.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch_npu

from inductor_npu.errors import CacheDirectoryError, LauncherBuildError, NpuWarning
from inductor_npu.support import host_compiler
from inductor_npu.support.user_cache import cache_directory

_SOURCES = Path(__file__).parent / "csrc"
_MODULE = "inductor_npu.ascend_chip._launcher"
# How csrc/launcher.cpp packs a type of Triton's signatures; numbers of 16 bits are passed as float.
_KINDS = {
    "i1": "i",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "fp16": "f",
    "bf16": "f",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}
_CUBE, _VECTOR, _MIXED_CUBE, _MIXED_VECTOR = 0, 2, 4, 5  # TaskType in csrc/profiling.h
_TASK_TYPES = {1: _VECTOR, 2: _CUBE, 3: _MIXED_CUBE, 4: _MIXED_VECTOR}  # by the first digit of a kernel's bs_task_type
# Switches of Ascend's Triton that ask for what only its own launcher does.
_SWITCHES = ("TRITON_DEVICE_PRINT", "TRITON_GRID_WARN_PRINT", "TRITON_REGISTER_TENSOR_MSPROF", "TRITON_COMPILE_ONLY")


@dataclass(frozen=True)
class LaunchFacts:
    """What a launch has to know of a kernel (KernelFacts in csrc/launch.h).

    symbol: its name in the machine code. kinds: how each argument is packed, a letter each. skipped: which of them are
    constants that the compiler knows. workspace_bytes: of a block. most_blocks: 0 for no limit. synchronises: whether
    it takes an address for synchronisation between cores. task_type, mix_ratio: for the profiler.
    """

    symbol: str
    kinds: str
    skipped: tuple[bool, ...]
    workspace_bytes: int
    most_blocks: int
    synchronises: bool
    task_type: int
    mix_ratio: int


def launcher_of(stock: Any, source: Any, metadata: Any) -> Any:
    """A callable that launches a kernel: (grid x, y, z, stream, kernel, packed metadata, launch metadata, enter hook,
    exit hook, *arguments). `stock` makes the one of Ascend's Triton.
    """
    facts = facts_of(source, metadata)
    if facts is None or not _is_there():
        return stock(source, metadata)
    return _load().Launcher(
        facts.symbol,
        facts.kinds,
        facts.skipped,
        _workspace,
        facts.workspace_bytes,
        facts.most_blocks,
        facts.synchronises,
        facts.task_type,
        facts.mix_ratio,
    )


def facts_of(source: Any, metadata: Any) -> LaunchFacts | None:
    """What a launch has to know of the kernel of this source, compiled to this metadata; None for one that needs the
    launcher of Ascend's Triton.
    """
    if not _is_plain(metadata):
        return None
    from triton.backends.ascend import utils
    from triton.runtime import driver

    constants = {_place(source, key) for key in getattr(source, "constants", {})}
    places = {_place(source, key): kind for key, kind in source.signature.items()}
    kinds = ["P" if kind.startswith("*") else _KINDS.get(kind, "") for kind in places.values()]
    if not all(kinds):
        return None
    device = driver.active.utils
    is_vector = metadata.mix_mode == "aiv"
    cores = device.get_aivector_core_num() if is_vector else device.get_aicore_num()
    kind, ratio = divmod(int(getattr(metadata, "bs_task_type", 0) or 0), 10)
    return LaunchFacts(
        symbol=metadata.name.split()[0],
        kinds="".join(kinds),
        skipped=tuple(place in constants for place in places),
        workspace_bytes=int(getattr(metadata, "workspace_size", 0)),
        most_blocks=cores if utils._is_auto_map_parallel_blocks_enabled() else 0,
        synchronises=utils.is_ffts_supported(utils.get_ascend_arch_from_env()) and not utils.force_disable_ffts(),
        task_type=_TASK_TYPES.get(kind, _VECTOR if is_vector else _CUBE),
        mix_ratio=ratio,
    )


@functools.cache
def _is_there() -> bool:
    """Whether the C++ module can be had; a warning says once why not."""
    try:
        _load()
    except (LauncherBuildError, CacheDirectoryError) as error:
        warnings.warn(str(error), NpuWarning, stacklevel=2)
        return False
    return True


def _is_plain(metadata: Any) -> bool:
    simt = "simt" in metadata.parallel_mode or metadata.force_simt_only
    locks = int(getattr(metadata, "lock_num", 0)) > 0
    asked = any(_is_on(name, "false") for name in _SWITCHES)
    return not simt and not locks and not asked and _is_on("TRITON_ENABLE_TASKQUEUE", "true")


def _is_on(name: str, default: str) -> bool:
    return os.environ.get(name, default).lower() in ("true", "1")


def _place(source: Any, key: Any) -> Any:
    return source.fn.arg_names.index(key) if isinstance(key, str) else key


def _workspace(bytes_: int) -> torch.Tensor:
    return torch.empty(bytes_, dtype=torch.uint8, device="npu")


@functools.cache
def _load() -> ModuleType:
    """The C++ module, built first if need be. Raises LauncherBuildError or CacheDirectoryError."""
    return host_compiler.import_library(_MODULE, _library())


def _library() -> Path:
    compiler = host_compiler.find()
    if compiler is None:
        raise LauncherBuildError(command=", ".join(host_compiler.names()), output="there is no such compiler")
    flags = ["-O2", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall"]
    texts = [(_SOURCES / name).read_text() for name in ("launcher.cpp", "launch.h", "profiling.h")]
    made_of = "|".join([str(compiler), sysconfig.get_config_var("SOABI"), torch_npu.__version__, *flags, *texts])
    library = cache_directory() / "launcher" / hashlib.sha256(made_of.encode()).hexdigest()[:16] / "_launcher.so"
    libraries = Path(torch_npu.__file__).parent / "lib"
    command = [str(compiler), *flags, f"-isystem{sysconfig.get_paths()['include']}", str(_SOURCES / "launcher.cpp")]
    command += [f"-L{libraries}", "-ltorch_npu", "-ldl"]

    def build() -> None:
        try:
            host_compiler.run_and_rename(command, library)
        except host_compiler.CompilerError as error:
            raise LauncherBuildError(command=" ".join(error.command), output=error.output) from error

    return host_compiler.build_once(library, build)

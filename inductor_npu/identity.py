"""What decides the generated code besides the graph, by name: our part of Inductor's cache key, and of our own keys.

Each field is a short text, equal in every process, directory and account with the same versions and settings. The
functions here never raise: Inductor asks for the key in every process that compiles, for any device.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from inductor_npu import providers
from inductor_npu.errors import NpuError
from inductor_npu.support import cann, versions

# What decides what code is generated, as files and folders of the package.
_GENERATING = (
    "ascend/toolchain/failures.py",
    "ascend_chip/refusals.py",
    "codegen",
    "config.py",
    "device_interface",
    "lowering",
    "providers.py",
    "runtime",
    "setup/compat.py",
    "setup/registration.py",
    "support/upstream.py",
    "target",
    "tiling",
)
# The providers' compilers: a kernel that one refuses is written in another way.
_COMPILER = ("cuda/triton_backend", "simulator/triton_backend", "triton_npu")
_DEVICE_FUNCTIONS = ("runtime/device_functions",)
_LAUNCHING = (
    "cache/kernels.py",
    "runtime/autotuner.py",
    "runtime/grid.py",
    "runtime/heuristics.py",
    "runtime/launcher.py",
)
_ASCEND_PACKAGES = ("torch-npu", "triton-ascend", "ascendnpu-ir")


def toolchain_identity() -> str:
    """The fields of `generation_fields` as one text (JSON with sorted keys), for Inductor's cache key."""
    return json.dumps(generation_fields(), sort_keys=True)


def generation_fields() -> dict[str, str]:
    """What decides the generated code beside the graph and the knobs of `config`: by name, a hash or a version."""
    return {
        "code generation": source_hash(_GENERATING),
        "compiler": f"{source_hash(_COMPILER)} {_versions(['llvmlite'])}",
        "triton": _triton(),
        "provider": _provider(),
        "target": _target(),
        "ascend": _ascend(),
    }


def device_functions_identity() -> str:
    """Hash of the functions that generated kernels call: a kernel's text is the same when they change."""
    return source_hash(_DEVICE_FUNCTIONS)


def launching_identity() -> str:
    """Hash of what makes a launch of a compiled kernel: which blocks it gets, and how it is stored."""
    return source_hash(_LAUNCHING)


def source_hash(parts: Sequence[str]) -> str:
    """Hash of the Python files and folders of this package named by `parts`: their names and contents."""
    return _hash_below(Path(__file__).parent, tuple(parts))


@functools.cache
def _hash_below(root: Path, parts: tuple[str, ...]) -> str:
    return hash_files(root, [path for part in parts for path in _sources(root / part)])


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def hash_files(root: Path, paths: Sequence[Path]) -> str:
    """Hash of the contents of `paths`, and of their names below `root`. Where a file cannot be read nothing is known of
    the code that runs: another text each time, so that nothing is ever found by it.
    """
    digest = hashlib.sha256()
    try:
        for path in paths:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root)} {len(content)} ".encode() + content)
    except OSError as error:
        return f"unreadable ({type(error).__name__}, {os.getpid()}, {time.time_ns()})"
    return digest.hexdigest()[:16]


def _triton() -> str:
    return " ".join(versions.installed_triton() or ("none",))


def _provider() -> str:
    try:
        provider = providers.select_provider()
    except (NpuError, ImportError) as error:
        return f"none: {error}"
    return provider.name if provider is not None else providers.NO_PROVIDER


def _target() -> str:
    try:
        return str(providers.current_target())
    except NpuError as error:
        return f"none: {error}"  # raised where something is compiled for it


def _ascend() -> str:
    """The versions of Ascend's software where it compiles for this process."""
    if _provider() != providers.ASCEND.name:
        return "none"
    return f"{_versions(_ASCEND_PACKAGES)}, {_cann()}"


def _cann() -> str:
    home = cann.folder()
    files = [] if home is None else cann.version_files(home)
    return f"CANN {hash_files(home, files)}" if home is not None and files else "CANN unknown"


def _versions(packages: Sequence[str]) -> str:
    return ", ".join(f"{name} {_version(name) or 'none'}" for name in packages)


_version = functools.cache(versions.version_of)

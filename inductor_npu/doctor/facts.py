"""What is installed and set, without importing any of it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

# Distributions that bring the module `triton`: of two, the one that was installed last has written over the other.
TRITONS = ("triton", "triton-ascend", "pytorch-triton")


def version_of(distribution: str) -> str | None:
    """The version that is installed, None if it is not."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def tritons() -> dict[str, str]:
    """Versions of all distributions that bring `triton`, by name."""
    return {name: version for name in TRITONS if (version := version_of(name)) is not None}


def place_of(module: str) -> Path | None:
    """The file of a module, which is not imported."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@functools.cache
def cann() -> tuple[Path, str] | None:
    """The folder of CANN that set_env.sh named, and its version ("unknown" where no file says it); None without one."""
    folder = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if not folder or not Path(folder).is_dir():
        return None
    for name in (
        "version.cfg",
        "ascend_toolkit_install.info",
        f"{os.uname().machine}-linux/ascend_toolkit_install.info",
    ):
        path = Path(folder, name)
        if path.is_file() and (
            match := re.search(r"[vV]ersion\D{0,40}?(\d+\.\d+[\w.]*)", path.read_text(errors="replace"))
        ):
            return Path(folder), match[1]
    return Path(folder), "unknown"


def bishengir() -> Path | None:
    """Ascend's compiler of kernels, as Ascend's Triton looks for it: CANN's, or that on PATH."""
    path = shutil.which("bishengir-compile")
    return Path(path) if path else None


def python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}, {sys.executable}"


def settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that decide who provides and compiles for the device, as far as they are set."""
    names = ("TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCHINDUCTOR_NPU_BACKEND", "TRITON_INTERPRET", "TASK_QUEUE_ENABLE")
    ours = {name for name in environment if name.startswith("INDUCTOR_NPU_")}
    return {name: environment[name] for name in sorted({*names, *ours}) if environment.get(name)}

"""What is installed and set, without importing any of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def place_of(module: str) -> Path | None:
    """The file of a module, which is not imported."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


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

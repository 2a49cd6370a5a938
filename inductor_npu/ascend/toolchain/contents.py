"""What a Python environment has of Ascend's compiler, as plain data. Runs in any Python, imports nothing of ours.

As a script (`python -I contents.py`) it prints the data as JSON, which is how another environment is queried.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
from pathlib import Path

PACKAGES = ("triton-ascend", "ascendnpu-ir", "torch", "triton")


def describe() -> dict[str, object]:
    """The Python and its platform, the versions of `PACKAGES` (None: not installed), and the folders of the compiler's
    programs: `adapter` (triton-adapter-opt) and `programs` (bishengir-compile), None where the package is absent.
    """
    triton, ascendnpuir = _folder("triton"), _folder("ascendnpuir")
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "versions": {name: _version(name) for name in PACKAGES},
        "adapter": triton and str(triton / "backends" / "ascend"),
        "programs": ascendnpuir and str(ascendnpuir / "bin"),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folder(module: str) -> Path | None:
    """Where a package's files are, without importing it."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


if __name__ == "__main__":
    print(json.dumps(describe()))

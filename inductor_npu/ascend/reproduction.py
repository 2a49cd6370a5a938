"""A kernel that the compiler crashed on, as a folder to run it from and to send to the compiler's makers."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path

from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.errors import NpuWarning
from inductor_npu.support.user_cache import cache_directory

# What the stages leave in a kernel's folder, as far as they came.
_FILES = ("kernel.py", "kernel.ttir", "kernel.mlir", "command.txt")
_REQUEST = "request.json"


def save_reproduction(kernel: KernelSource, target: str, work: Path) -> str | None:
    """Keeps what the compiler had made of `kernel` in its folder `work`; returns the folder where it is now.

    Returns None, with a warning, if it cannot be written.
    """
    folder = cache_directory() / "ascend" / "crashes" / f"{kernel.name[:60]}-{kernel.key[:12]}-{target}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
            if (work / name).is_file():
                shutil.copyfile(work / name, folder / name)
        request = {"kernel": asdict(kernel), "target": target, "folder": "."}
        (folder / _REQUEST).write_text(f"{json.dumps(request)}\n")
        if not (folder / "command.txt").exists():
            # It broke before a program was run: within the front end, which is a library.
            command = f"python -m inductor_npu.ascend.toolchain.worker PROGRAMS < {_REQUEST}"
            (folder / "command.txt").write_text(f"{command}\n")
    except OSError as error:
        warnings.warn(
            f"kernel {kernel.name} crashed the compiler and cannot be saved ({error})", NpuWarning, stacklevel=2
        )
        return None
    return str(folder)

"""What device npu is built of where it is a GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from inductor_npu.cuda import chips
from inductor_npu.device.runtime import Runtime
from inductor_npu.errors import NoCudaError
from inductor_npu.providers import current_target

_MOST_DEVICES = 8
_HEADER = "include/cuda.h"
_USUAL = Path("/usr/local")


def device_settings() -> dict[str, Any]:
    """The arguments of `_C.configure`: as many devices as CUDA shows, with the memory of the first.

    Raises NoCudaError if there is no GPU that can be used.
    """
    target = current_target()
    gpus = chips.find()
    return {
        "target": target.name,
        "devices": min(gpus.count, _MOST_DEVICES),
        "memory_bytes": gpus.memory_bytes,
        "vector_cores": target.vector_cores,
        "max_grid": target.max_grid,
        "more_devices": "CUDA_VISIBLE_DEVICES says which GPUs of the machine are shown",
        "more_memory": "torch.npu.set_per_process_memory_fraction says how much of the GPU's memory this process takes",
        "no_more_memory": "The GPU itself has no more memory: other processes, or PyTorch's tensors on cuda, have it",
    }


def toolkit() -> Path:
    """The folder of CUDA's toolkit: CUDA_HOME, the one of the nvcc that is found, or one in /usr/local.

    Raises NoCudaError if none has CUDA's headers.
    """
    compiler = shutil.which("nvcc")
    candidates = [
        os.environ.get("CUDA_HOME", ""),
        str(Path(compiler).resolve().parent.parent) if compiler else "",
        *map(str, sorted(_USUAL.glob("cuda*"))),
    ]
    for candidate in filter(None, candidates):
        if (Path(candidate) / _HEADER).exists():
            return Path(candidate)
    raise NoCudaError(
        missing=f"CUDA's headers ({_HEADER} in CUDA_HOME, beside nvcc, or in /usr/local/cuda*)",
        advice="Install CUDA's toolkit, of the version that torch was built for, or set CUDA_HOME",
    )


def _libraries() -> list[str]:
    """CUDA's driver, by the stub that the toolkit has for linking."""
    return [f"-L{folder}" for folder in toolkit().glob("lib*/stubs")] + ["-lcuda"]


RUNTIME = Runtime(
    name="the device npu over CUDA",
    sources=(Path(__file__).parent / "csrc",),
    settings=device_settings,
    includes=lambda: (toolkit() / "include",),
    libraries=("c10_cuda", "torch_cuda"),
    link_flags=_libraries,
    collectives="inductor_npu.cuda.collectives:make_nccl",
)

"""What device npu is built of where it is a GPU."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import Any

from inductor_npu.device.runtime import Runtime
from inductor_npu.errors import NoCudaError
from inductor_npu.providers import current_target

_MOST_DEVICES = 8
_HEADER = "include/cuda.h"


def device_settings() -> dict[str, Any]:
    """The arguments of `_C.configure`: as many devices as CUDA shows, with the memory of the first.

    Raises NoCudaError if there is no GPU that can be used.
    """
    target = current_target()
    devices, memory = _devices()
    return dict(
        target=target.name,
        devices=min(devices, _MOST_DEVICES),
        memory_bytes=memory,
        vector_cores=target.vector_cores,
        max_grid=target.max_grid,
        more_devices="CUDA_VISIBLE_DEVICES says which GPUs of the machine are shown",
    )


def _devices() -> tuple[int, int]:
    """How many GPUs there are, and the bytes of memory of the first. Asks CUDA's driver, but opens no device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoCudaError(missing=f"CUDA's driver ({error})", advice="Install NVIDIA's driver") from None
    count, memory = ctypes.c_int(0), ctypes.c_size_t(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise NoCudaError(missing="a GPU that CUDA can use", advice="Look at nvidia-smi and CUDA_VISIBLE_DEVICES")
    device = ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return count.value, memory.value


def toolkit() -> Path:
    """The folder of CUDA's toolkit: CUDA_HOME, the one of the nvcc that is found, or one in /usr/local.

    Raises NoCudaError if none has CUDA's headers.
    """
    compiler = shutil.which("nvcc")
    candidates = [
        os.environ.get("CUDA_HOME", ""),
        str(Path(compiler).resolve().parent.parent) if compiler else "",
        *map(str, sorted(Path("/usr/local").glob("cuda*"))),
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
)

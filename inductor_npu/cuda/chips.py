"""The GPUs of this machine, asked of CUDA's driver without opening one."""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass

from inductor_npu.errors import NoCudaError
from inductor_npu.target import known_targets

_NAME_BYTES = 256


@dataclass(frozen=True)
class Gpus:
    """How many there are, what the first is called, and the bytes of its memory. All are taken to be alike."""

    count: int
    name: str
    memory_bytes: int


@functools.cache
def find() -> Gpus:
    """The GPUs that CUDA shows. Raises NoCudaError if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoCudaError(missing=f"CUDA's driver ({error})", advice="Install NVIDIA's driver") from None
    count, device, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise NoCudaError(missing="a GPU that CUDA can use", advice="Look at nvidia-smi and CUDA_VISIBLE_DEVICES")
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, _NAME_BYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Gpus(count.value, name.value.decode(), memory.value)


def name_of_the_chip() -> str:
    """The target that the first GPU is: the one whose name is a word of the GPU's (NVIDIA H100 80GB HBM3 is H100), else
    the GPU's own name, which no target has.
    """
    name = find().name
    words = re.findall(r"\w+", name)
    return next((target for target in known_targets() if target in words), name)

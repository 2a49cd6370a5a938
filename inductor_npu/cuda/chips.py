"""The GPUs of this machine, asked without opening one.

NVIDIA's management library (NVML) is asked first: CUDA's driver, once it is started in a process, cannot be used in one
that is forked from it, and `import torch` must not take that from a program.
"""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass

import torch

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
    return _told_by_nvml() or _told_by_driver(driver)


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t of nvml.h, in bytes; `version` says which structure it is."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def _told_by_nvml() -> Gpus | None:
    """None where it does not say: it is not there, or shows parts of GPUs (MIG)."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        count = torch.cuda.device_count()  # NVML's, of those that CUDA_VISIBLE_DEVICES shows
        index = torch.cuda._get_nvml_device_index(0) if count else -1
    except (OSError, RuntimeError, ValueError):
        return None
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES)
    memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
    if (
        index < 0
        or nvml.nvmlInit_v2() != 0
        or nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0
        or nvml.nvmlDeviceGetName(device, name, _NAME_BYTES) != 0
        or nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)) != 0
    ):
        return None
    return Gpus(count, name.value.decode(), memory.total - memory.reserved)


def _told_by_driver(driver: ctypes.CDLL) -> Gpus:
    """Raises NoCudaError if there is none."""
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

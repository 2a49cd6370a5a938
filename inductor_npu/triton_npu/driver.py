"""What Triton's drivers of device `npu` have in common: questions that the target and the C++ runtime answer."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from ..target.npu_target import NpuTarget

WARP_SIZE = 32  # without meaning on a chip without threads; the value that Inductor assumes where a device names none
CPP_TYPES = {
    "i1": "int8_t",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u1": "uint8_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "fp16": "double",
    "bf16": "double",
    "fp32": "double",
    "f32": "double",
    "fp64": "double",
}


# Of the memory's bus, which no target names: any will do, as Triton multiplies it by the clock.
_BUS_BITS = 8192


def memory_properties(target: NpuTarget) -> dict[str, int]:
    """The memory's clock in kHz and the width of its bus in bits, of which `triton.testing.get_dram_gbps` makes the
    target's bandwidth: two transfers a cycle. Inductor estimates how long kernels take by it.
    """
    bandwidth = target.device_bytes_per_cycle * target.vector_cores * target.clock
    return {"mem_clock_rate": round(bandwidth * 8 / (2 * _BUS_BITS) / 1000), "mem_bus_width": _BUS_BITS}


class DriverOfTarget(DriverBase):
    """Triton's view of device `npu`; a provider adds what loads and launches kernels. Making one does not open the
    device.
    """

    cache_flush_bytes: int  # what a benchmark overwrites, so that nothing of its inputs is left in a cache

    def __init__(self) -> None:
        from ..providers import current_target

        super().__init__()
        self._npu = current_target()
        self._target = GPUTarget("npu", self._npu.name, WARP_SIZE)

    @abstractmethod
    def runtime(self) -> ModuleType:
        """The open device's C++ module."""

    # The two that every launch asks. The first call opens the device and puts the C function in the method's place.

    def get_current_device(self) -> int:
        self.get_current_device = self.runtime().current_device  # type: ignore[method-assign]
        return self.get_current_device()

    def get_current_stream(self, device: int) -> int:
        """The handle of the current stream."""
        self.get_current_stream = self.runtime().get_raw_stream  # type: ignore[method-assign]
        return self.get_current_stream(device)

    def set_current_device(self, device: int) -> None:
        self.runtime().set_device(device)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("npu", self.get_current_device())

    def get_device_interface(self) -> ModuleType:
        """The module with Event, synchronize, ... that `triton.testing` uses."""
        import torch

        return torch.npu

    def get_benchmarker(self) -> Callable[..., Any]:
        """What Triton's autotuner times candidates with."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(self.cache_flush_bytes // 4, dtype=torch.int32, device="npu")

    def clear_cache(self, cache: Any) -> None:
        """Overwrite `cache`, so that a benchmark finds none of its inputs in a cache."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C++ type of a kernel argument; half-precision numbers travel as double."""
        return "uint64_t" if ty.startswith("*") else CPP_TYPES[ty]


class NoDevice:
    """Goes before a driver's class, for a process that compiles for another process."""

    @classmethod
    def activate(cls) -> None:
        """Makes this the process's driver."""
        from triton.runtime import driver

        driver.set_active(cls())

    def get_current_device(self) -> int:
        return 0


def is_provided_by(name: str) -> bool:
    """Whether the provider called `name` provides device `npu` in this process."""
    from ..errors import NpuError
    from ..providers import select_provider

    try:
        provider = select_provider()
    except (ImportError, NpuError):
        return False  # no torch, or a variable that cannot be honoured: the autoload reports that
    return provider is not None and provider.name == name


@functools.cache
def asks_for_threads() -> bool:
    """Whether Triton unpacks five values from `load_binary`; it did four up to version 3.3."""
    from triton.compiler import CompiledKernel

    return "n_max_threads" in CompiledKernel._init_handles.__code__.co_names

"""NpuDriver: how Triton loads and launches kernels on the embedded NPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from ...diagnostics.compile_time.phases import Phase, timed
from ...target import NpuTarget

WARP_SIZE = 32  # without meaning on an NPU; the value that Inductor assumes where a device names none
UNLIMITED_THREADS = 1 << 30
CACHE_FLUSH_BYTES = 64 * 1024 * 1024  # larger than the host's last-level cache share of a core
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


class NpuUtils:
    """What Triton calls `driver.utils`: loading binaries and the device's properties."""

    def __init__(self, target: NpuTarget) -> None:
        self._target = target

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Link `kernel` (bytes of a KernelFile) into this process.

        Returns module (the address of its code), function handle, registers, spills and, where this Triton asks for it,
        the largest number of threads. Raises DamagedKernelError.
        """
        from .kernel_file import DamagedKernelError, KernelFile
        from .object_code import load_function

        runtime = _runtime()
        try:
            file = KernelFile.unpack(kernel)
        except DamagedKernelError as error:
            raise DamagedKernelError(
                f"kernel {name} cannot be loaded: {error}; delete Triton's cache directory to have it compiled again"
            ) from error
        with timed(Phase.LINKING):
            entry = load_function(file.object_code, file.entry, runtime.runtime_symbols())
        function = runtime.register_kernel(name, entry, file.scratch_bytes, file.work_per_program, list(file.messages))
        return self.loaded(entry, function)

    @staticmethod
    def loaded(entry: int, function: int) -> tuple[int, ...]:
        """What Triton wants of a loaded kernel: see `load_binary`."""
        threads = (UNLIMITED_THREADS,) if _asks_for_threads() else ()
        return entry, function, 0, 0, *threads

    def unload_module(self, module: int) -> None:
        """Triton 3.9 calls this when a kernel is dropped; its code stays, as launches of it may still be queued."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Sizes in bytes; `multiprocessor_count` counts vector cores."""
        return {
            "max_shared_mem": self._target.unified_buffer,
            "max_num_regs": 0,
            "multiprocessor_count": self._target.vector_cores,
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class NpuDriver(DriverBase):
    """Triton's view of device `npu` where the embedded NPU provides it. Making one does not open the device."""

    def __init__(self) -> None:
        from ...providers import current_target

        super().__init__()
        self._npu = current_target()
        self._target = GPUTarget("npu", self._npu.name, WARP_SIZE)
        self.utils = NpuUtils(self._npu)

    # The two that every launch asks. The first call opens the device and puts the C function in the method's place.

    def get_current_device(self) -> int:
        self.get_current_device = _runtime().current_device  # type: ignore[method-assign]
        return self.get_current_device()

    def get_current_stream(self, device: int) -> int:
        """The handle of the current stream."""
        self.get_current_stream = _runtime().get_raw_stream  # type: ignore[method-assign]
        return self.get_current_stream(device)

    def set_current_device(self, device: int) -> None:
        _runtime().set_device(device)

    @classmethod
    def is_active(cls) -> bool:
        """Whether the embedded NPU provides device `npu` in this process."""
        from ...errors import NpuError
        from ...providers import SIMULATOR, select_provider

        try:
            return select_provider() is SIMULATOR
        except (ImportError, NpuError):
            return False  # no torch, or a variable that cannot be honoured: the autoload reports that

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("npu", self.get_current_device())

    def get_device_interface(self) -> ModuleType:
        """The module with Event, synchronize, ... that `triton.testing` uses."""
        return _npu_module()

    def get_benchmarker(self) -> Callable[..., Any]:
        """What Triton's autotuner times candidates with: their launches are not the program's."""
        from triton.testing import do_bench

        from .observer import unobserved

        return unobserved(do_bench)

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(CACHE_FLUSH_BYTES // 4, dtype=torch.int32, device="npu")

    def clear_cache(self, cache: Any) -> None:
        """Overwrite `cache`, so that a benchmark finds none of its inputs in the host's caches."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C++ type of a kernel argument; half-precision numbers travel as double."""
        return "uint64_t" if ty.startswith("*") else CPP_TYPES[ty]

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        """The launcher of a kernel. Raises UnifiedBufferExceededError if the kernel does not fit the target."""
        from .ascend_options import ascend_options
        from .launcher import make_launcher
        from .observer import observed

        check_buffers(metadata, self._npu)
        launcher = make_launcher(_runtime().KernelLauncher, src)
        if hasattr(metadata, "accesses"):  # compiled with checks
            from .checked_launch import checked

            launcher = checked(launcher, src, metadata)
        return observed(launcher, src, ascend_options(metadata))


def check_buffers(metadata: Any, target: NpuTarget) -> None:
    """Raises UnifiedBufferExceededError if the kernel of `metadata` needs more on-chip memory than `target` has."""
    smaller = "Use smaller block sizes."
    for name, required, limit, largest, advice in (
        ("the Unified Buffer", metadata.shared, target.unified_buffer, "largest_tiles", smaller),
        ("L1, the buffer of dot operands,", metadata.l1, target.l1, "largest_in_l1", "Use a smaller block along K."),
        ("the dot accumulator buffer L0C", metadata.l0c, target.l0c, "largest_in_l0c", smaller),
    ):
        if required > limit:
            from .errors import UnifiedBufferExceededError  # brings the parser of TTIR, which few processes need

            tiles = tuple(tuple(tile) for tile in getattr(metadata, largest))
            if largest == "largest_tiles" and metadata.rows_shared:
                advice = f"{advice} Each of the vector cores beside a cube core has its share of the rows below."
            where = f"{name} of {target.name}"
            raise UnifiedBufferExceededError(required, limit, where, metadata.name, tiles, advice)


@functools.cache
def _asks_for_threads() -> bool:
    """Whether Triton unpacks five values from `load_binary`; it did four up to version 3.3."""
    from triton.compiler import CompiledKernel

    return "n_max_threads" in CompiledKernel._init_handles.__code__.co_names


def _npu_module() -> ModuleType:
    import torch

    return torch.npu


def _runtime() -> ModuleType:
    """The open device's C++ module."""
    from ...device.npu.runtime import extension

    return extension()

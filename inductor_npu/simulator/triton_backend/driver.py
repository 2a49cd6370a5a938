"""NpuDriver: how Triton loads and launches kernels on the embedded NPU."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...diagnostics.compile_time.phases import Phase, timed
from ...target import NpuTarget
from ...triton_npu.driver import WARP_SIZE, DriverOfTarget, asks_for_threads, memory_properties

UNLIMITED_THREADS = 1 << 30
CACHE_FLUSH_BYTES = 64 * 1024 * 1024  # larger than the host's last-level cache share of a core


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
        threads = (UNLIMITED_THREADS,) if asks_for_threads() else ()
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
            **memory_properties(self._target),
        }


class NpuDriver(DriverOfTarget):
    """Triton's view of device `npu` where the embedded NPU provides it. Making one does not open the device."""

    cache_flush_bytes = CACHE_FLUSH_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.utils = NpuUtils(self._npu)

    def runtime(self) -> ModuleType:
        return _runtime()

    @classmethod
    def is_active(cls) -> bool:
        """Whether the embedded NPU provides device `npu` in this process."""
        from ...providers import SIMULATOR
        from ...triton_npu.driver import is_provided_by

        return is_provided_by(SIMULATOR.name)

    def get_benchmarker(self) -> Callable[..., Any]:
        """What Triton's autotuner times candidates with: their launches are not the program's."""
        from triton.testing import do_bench

        from .observer import unobserved

        return unobserved(do_bench)

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        """The launcher of a kernel. Raises UnifiedBufferExceededError if the kernel does not fit the target."""
        from ...triton_npu.ascend_options import ascend_options
        from ...triton_npu.launcher import make_launcher
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


def _runtime() -> ModuleType:
    """The open device's C++ module."""
    from ...device.npu.runtime import extension

    return extension()

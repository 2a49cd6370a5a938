"""CudaNpuDriver: how Triton loads and launches kernels where device `npu` is a GPU of NVIDIA."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ...errors import UnsupportedLaunchError
from ...target import NpuTarget
from ...triton_npu.driver import WARP_SIZE, DriverOfTarget, asks_for_threads, memory_properties
from .image import is_packed, unpacked

PROVIDER = "cuda"
# Of compute capability 9.0 (CUDA C++ Programming Guide): what one program may have, and the registers of a
# multiprocessor.
SHARED_BYTES = 227 * 1024
REGISTERS = 64 * 1024
CACHE_FLUSH_BYTES = 256 * 1024 * 1024  # five times the L2


class CudaUtils:
    """What Triton calls `driver.utils`: loading binaries and the device's properties."""

    def __init__(self, target: NpuTarget) -> None:
        self._target = target

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Load `kernel` (what image.py packs) on the current device, for launches with `shared` bytes of shared memory.

        Returns the handles of module and function, registers and spills of a thread and, where this Triton asks for it,
        the largest number of threads. Raises ValueError for another file, and what the C++ runtime raises where CUDA's
        driver refuses the image.
        """
        if not is_packed(kernel):  # of torch.cuda beside us: Triton has one driver in a process
            return cuda_driver().utils.load_binary(name, kernel, shared, device)
        cubin, threads = unpacked(kernel, name)
        return self.loaded(_runtime().load_kernel(name, cubin, shared, threads))

    @staticmethod
    def loaded(handles: tuple[int, ...]) -> tuple[int, ...]:
        """What Triton wants of a loaded kernel: see `load_binary`."""
        return tuple(handles) if asks_for_threads() else tuple(handles[:4])

    def unload_module(self, module: int) -> None:
        """Triton 3.9 calls this when a kernel is dropped; its code stays, as launches of it may still be queued."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Sizes in bytes; `multiprocessor_count` counts vector cores, each the room of one program."""
        return {
            "max_shared_mem": SHARED_BYTES,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": self._target.vector_cores,
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 0,
            **memory_properties(self._target),
        }


class CudaNpuDriver(DriverOfTarget):
    """Triton's view of device `npu` where a GPU provides it. Making one does not open the device."""

    cache_flush_bytes = CACHE_FLUSH_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.utils = CudaUtils(self._npu)

    def runtime(self) -> ModuleType:
        return _runtime()

    @classmethod
    def is_active(cls) -> bool:
        """Whether a GPU provides device `npu` in this process."""
        from ...triton_npu.driver import is_provided_by

        return is_provided_by(PROVIDER)

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        """The launcher of a kernel. Raises UnsupportedLaunchError for a kernel that a plain launch does not serve."""
        from ...triton_npu.launcher import make_launcher

        if metadata.target.backend == PROVIDER:
            return cuda_driver().launcher_cls(src, metadata)
        check_launch(metadata)
        return make_launcher(_runtime().KernelLauncher, src)


@functools.cache
def cuda_driver() -> Any:
    """Triton's own driver, for kernels that were compiled for torch.cuda."""
    from triton.backends.nvidia.driver import CudaDriver

    return CudaDriver()


def check_launch(metadata: Any) -> None:
    """Raises UnsupportedLaunchError if the kernel of `metadata` needs more than programs that know nothing of each
    other, with registers and shared memory of their own.
    """
    for reason, is_needed, advice in (
        ("scratch in global memory", metadata.global_scratch_size, "Leave out what asks for it"),
        ("scratch for profiles", getattr(metadata, "profile_scratch_size", 0), "Leave out the instrumentation"),
        ("a cooperative grid", metadata.launch_cooperative_grid, "Leave out launch_cooperative_grid"),
        ("clusters", metadata.num_ctas > 1, "Leave out num_ctas"),
        ("descriptors of tensors in hardware", getattr(metadata, "tensordesc_meta", None), "Write it in Triton"),
    ):
        if is_needed:
            raise UnsupportedLaunchError(kernel=metadata.name, reason=reason, advice=advice)


def _runtime() -> ModuleType:
    """The open device's C++ module."""
    from ...device.npu.runtime import extension

    return extension()

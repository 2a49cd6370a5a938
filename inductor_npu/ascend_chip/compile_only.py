"""Ascend's Triton in a process that compiles for another process: it has a target, and no device."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from inductor_npu.providers import current_target


class _NothingLoaded:
    """What Triton asks a driver for as it loads a kernel."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": 1,
            "num_aicore": current_target().cube_cores,
            "num_vectorcore": self.get_aivector_core_num(),
        }

    def get_aivector_core_num(self) -> int:
        return current_target().vector_cores

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, int, int, int]:
        """Loads nothing: a module and a function without an address, and no registers."""
        return 0, 0, 0, 0


class CompileOnlyDriver(DriverBase):
    """For a child that was forked while its parent used CANN, which then is closed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = _NothingLoaded()

    @classmethod
    def activate(cls) -> None:
        """Makes this the process's driver."""
        from triton.runtime import driver

        driver.set_active(cls())

    @classmethod
    def is_active(cls) -> bool:
        return False  # chosen by `activate` alone

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("npu", current_target().name, 0)

    def get_current_device(self) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        raise NotImplementedError("a process that compiles for another one times nothing")

    def launcher_cls(self, src: Any, metadata: Any) -> None:
        """No launcher."""

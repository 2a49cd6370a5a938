"""Triton's driver in a process that compiles for another process: it has a target, and no device."""

from __future__ import annotations

from typing import Any

from ...triton_npu.driver import NoDevice
from .driver import CudaNpuDriver, CudaUtils, check_launch

MOST_THREADS = 1024


class _NothingLoaded(CudaUtils):
    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Loads nothing: what `CudaUtils` returns, without handles."""
        return self.loaded((0, 0, 0, 0, MOST_THREADS))


class CompileOnlyDriver(NoDevice, CudaNpuDriver):
    """CudaNpuDriver for a child that was forked while its parent used the device, which then is closed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = _NothingLoaded(self._npu)

    def launcher_cls(self, src: Any, metadata: Any) -> None:
        """No launcher. Raises UnsupportedLaunchError as that of a process with the device does."""
        check_launch(metadata)

"""Triton's driver in a process that compiles for another process: it has a target, and no device."""

from __future__ import annotations

from typing import Any

from ...triton_npu.driver import NoDevice
from .driver import NpuDriver, NpuUtils, check_buffers


class _NothingLoaded(NpuUtils):
    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Loads nothing: what `NpuUtils` returns, without an address."""
        return self.loaded(0, 0)


class CompileOnlyDriver(NoDevice, NpuDriver):
    """NpuDriver for a child that was forked while its parent used the device, which then is closed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = _NothingLoaded(self._npu)

    def launcher_cls(self, src: Any, metadata: Any) -> None:
        """No launcher. Raises UnifiedBufferExceededError if the kernel does not fit the target."""
        check_buffers(metadata, self._npu)

"""Makes the embedded NPU Triton's target in this process, once Triton is imported."""

from __future__ import annotations

from ...triton_npu import selection


def install() -> None:
    """To be called where the embedded NPU provides device `npu`. Imports nothing of Triton; calling it again is
    harmless.
    """
    selection.install(f"{__package__}.compiler:NpuBackend", f"{__package__}.driver:NpuDriver")


__all__ = ["install"]

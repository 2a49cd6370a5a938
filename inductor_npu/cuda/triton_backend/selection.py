"""Makes the GPU, by Triton's compiler for NVIDIA, Triton's target `npu` in this process, once Triton is imported."""

from __future__ import annotations

from ...triton_npu import selection


def install() -> None:
    """To be called where a GPU provides device `npu`. Imports nothing of Triton; calling it again is harmless."""
    selection.install(f"{__package__}.compiler:CudaNpuBackend", f"{__package__}.driver:CudaNpuDriver")


__all__ = ["install"]

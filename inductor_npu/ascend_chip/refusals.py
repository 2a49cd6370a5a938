"""Kernels that Ascend's compiler refuses on a user's machine, as Triton's autotuners and ours know such errors."""

from __future__ import annotations

from triton.compiler.errors import MLIRCompilationError
from triton.runtime.errors import OutOfResources

from inductor_npu.ascend.toolchain.failures import overflow_of_unified_buffer


def as_out_of_resources(error: Exception) -> OutOfResources | None:
    """`error` as the one that has blocks made smaller, and an autotuner take the next candidate, where the compiler
    says that a kernel's tiles do not fit the Unified Buffer (sizes in bytes); None where it says anything else.
    """
    overflow = overflow_of_unified_buffer(str(error)) if isinstance(error, MLIRCompilationError) else None
    return None if overflow is None else OutOfResources(*overflow, "Unified Buffer")

"""Kernels that Ascend's compiler refuses on a user's machine, as errors that autotuners and users understand."""

from __future__ import annotations

from triton.compiler.errors import MLIRCompilationError
from triton.runtime.errors import OutOfResources

from inductor_npu.ascend.toolchain.failures import Stage, failure_of_program, overflow_of_unified_buffer
from inductor_npu.errors import AscendRefusalError

# The parts of the compiler by what Ascend's Triton calls them.
_PROGRAMS = {
    "ConvertLinalgRToBinary": (Stage.BISHENGIR, "bishengir-compile"),
    "ConvertTritonIRToLinalgIR": (Stage.ADAPTER, "triton-adapter-opt"),
}


def known_error(error: Exception, kernel: str) -> Exception | None:
    """What to raise in place of `error`, with which Ascend's Triton did not compile `kernel`.

    OutOfResources (sizes in bytes) where its tiles do not fit the Unified Buffer: blocks are made smaller then, and an
    autotuner takes the next candidate. AscendRefusalError where the compiler says anything else: a line with its words
    instead of a page. None for an error of Triton's own.
    """
    if not isinstance(error, MLIRCompilationError):
        return None
    output = str(error)
    if overflow := overflow_of_unified_buffer(output):
        return OutOfResources(*overflow, "Unified Buffer")
    stage = next((program for name, program in _PROGRAMS.items() if name in output), (Stage.FRONT_END, "Triton"))
    failure = failure_of_program(*stage, None, output)
    return AscendRefusalError(kernel=kernel, reason=failure.message)

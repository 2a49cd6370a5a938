"""What is registered where a GPU provides device `npu`."""

from __future__ import annotations

import os
import warnings

from inductor_npu.cuda.triton_backend import selection
from inductor_npu.errors import NpuWarning

# Modes of kernels that the embedded NPU has, and what does the same for a GPU.
_MODES = {
    "INDUCTOR_NPU_CHECKED": "compute-sanitizer finds such faults (tools/gpu.sh sanitizer)",
    "INDUCTOR_NPU_RECORD": "torch.profiler's time line has the launches",
}


def install() -> None:
    """To be called once, when the provider is chosen. Imports nothing of Triton and Inductor."""
    for variable, instead in _MODES.items():
        if os.environ.get(variable, "") not in ("", "0"):
            warnings.warn(f"{variable} is ignored: on a GPU, {instead}", NpuWarning, stacklevel=2)
    selection.install()

"""Kernels that Inductor's metrics do not count (torch._inductor.metrics.generated_kernel_count)."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen.common import Kernel


class Uncounted(Kernel):
    """Base class of kernels that are not kernels of the graph: parts of another one, or copies that wait for their use.

    Listed behind `NpuKernel` among a class's bases, it stands between Inductor's `SIMDKernel` and `Kernel`, which
    counts unless it is told not to.
    """

    def __init__(self, args: Any = None, increase_kernel_count: bool = True) -> None:
        super().__init__(args, increase_kernel_count=False)

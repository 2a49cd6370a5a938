"""What every kernel of loops goes through, whatever writes it: tiles that fit, its definition, its launch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.emit.emitted import EmittedKernel
from inductor_npu.codegen.scheduling.ahead_of_time import CompilesAhead
from inductor_npu.codegen.scheduling.loops import numels
from inductor_npu.tiling.plan import FILLED

log = logging.getLogger(__name__)


class WriteAgain(Exception):
    """Loops cannot be one kernel as it was written, and there is another way: tiles that fill `share` of the Unified
    Buffer, or, where that is None, more kernels.
    """

    def __init__(self, message: str, share: float | None) -> None:
        super().__init__(message)
        self.share = share


class WritesKernels(CompilesAhead):
    """A scheduling that writes a kernel again, with smaller tiles, as long as the compiler finds it too large."""

    # Shares of the Unified Buffer that tiles may fill, as estimated: smaller ones where the compiler disagrees. It may
    # do so by far: elements that are not contiguous take a block of 32 bytes each.
    _shares: tuple[float, ...] = tuple(FILLED / 2**halvings for halvings in range(7))
    _share: float = FILLED
    # The share that the present tiles fill, as estimated.
    _filled: float = 0.0

    def _with_fitting_share(self, write: Callable[[], None]) -> None:
        """Calls `write` with smaller and smaller shares of the Unified Buffer until its kernel fits. Raises WriteAgain
        if none is small enough, or it does not compile for another reason, and its loops can be written in other ways.
        """
        self._share = self._shares[0]
        while True:
            try:
                write()
                break
            except WriteAgain as error:
                if error.share is None:
                    raise
                log.debug("%s; writing it again", error)
                self._share = error.share

    def _smaller_share(self) -> float | None:
        """The next smaller share of the Unified Buffer, for which the present tiles are too large; None if there is
        none.
        """
        return next((share for share in self._shares if share < min(self._share, self._filled)), None)

    def _note_filled(self, size: int) -> None:
        self._filled = size / providers.current_target().unified_buffer

    def _features_of(self, nodes: Sequence[Any]) -> SIMDKernelFeatures:
        numel, reduction_numel = numels(nodes)
        return SIMDKernelFeatures(self.generate_node_schedule(nodes, numel, reduction_numel), numel, reduction_numel)

    def _define_and_launch(self, source: str, kernel: EmittedKernel, nodes: Sequence[Any]) -> None:
        """Puts the kernel of the loops `nodes` and its launch into the generated module."""
        kernel.kernel_name = self.define_kernel(source, nodes, kernel)
        with V.set_kernel_handler(kernel):
            for node in nodes:
                node.mark_run()
        self.codegen_comment(nodes, kernel.kernel_name)
        kernel.call_kernel(kernel.kernel_name)
        V.graph.removed_buffers.update(kernel.removed_buffers)
        V.graph.inplaced_to_remove.update(kernel.inplaced_to_remove)

"""Loops that eager operators compute, because no kernel of them can be planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V

from inductor_npu.codegen.emit.emitted import EmittedKernel
from inductor_npu.codegen.fallback.eager_kernel import reason_of


class OperatorsKernel(EmittedKernel):
    """The eager stand-in of the loops `features`. It has the arguments of a kernel, and no axes, tile or plan."""

    def __init__(self, features: SIMDKernelFeatures, failure: Exception) -> None:
        super().__init__(
            {}, features=features, override_persistent_reduction=False, override_cooperative_reduction=False
        )
        self._reason = f"no kernel can be planned, {reason_of(failure)}"
        with V.set_kernel_handler(self):
            self._take_results(features.scheduler_nodes())

    @property
    def why_in_eager(self) -> str:
        return self._reason

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[Any]:
        """None: the loops are in the text of the stand-in."""
        return []

    def codegen_range_tree(self) -> None:
        """Nothing, for the same reason."""

    def _take_results(self, nodes: Sequence[Any]) -> None:
        """Makes arguments of what the loops store, but for what nothing else reads."""
        for node in nodes:
            for written in node.read_writes.writes:
                self.args.output(written.name)
                self.store_buffer_names.add(written.name)
        self.remove_kernel_local_buffers()

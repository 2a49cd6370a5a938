"""Kernels of pairs: loops that reduce rows, and loops that sum columns of the same tensors (rows_and_columns.py)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from torch._inductor.scheduler import BaseSchedulerNode, FusedMixOrderReductions, FusedSchedulerNode
from torch._inductor.virtualized import V

from inductor_npu.codegen import attempt
from inductor_npu.codegen.analysis.kernel_plan import plan_kernel
from inductor_npu.codegen.emit.column_sums import ColumnSumsKernel
from inductor_npu.codegen.index import size_terms
from inductor_npu.codegen.scheduling import rows_and_columns
from inductor_npu.codegen.scheduling.writing import WriteAgain, WritesKernels
from inductor_npu.diagnostics.compile_time.phases import Phase, timed

log = logging.getLogger(__name__)


class WritesPairs(WritesKernels):
    """A scheduling that fuses pairs, and writes one kernel for each."""

    def fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusedSchedulerNode:
        """As Inductor's, and pairs."""
        if self._are_pair(node1, node2):
            return rows_and_columns.pair_of(node1, node2)
        return super().fuse(node1, node2)

    @staticmethod
    def _are_pair(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return not attempt.current().allows_operators and rows_and_columns.can_be_pair(node1, node2)

    # Whether buffers that nobody reads any longer are freed behind a kernel; not between the kernels of one node.
    _frees = True

    def free_buffers_in_scheduler(self) -> None:
        if self._frees:
            super().free_buffers_in_scheduler()

    @contextlib.contextmanager
    def _several_kernels(self) -> Iterator[None]:
        """Context in which one node becomes several kernels: buffers are freed behind the last."""
        self._frees = False
        try:
            yield
        finally:
            self._frees = True

    def codegen_mix_order_reduction(self, node: FusedMixOrderReductions) -> None:
        """Writes one kernel for a pair; two where that cannot be, as when rows do not fit the tile, or other loops were
        fused with the sums.
        """
        rows, columns = node.node1.get_nodes(), node.node2.get_nodes()
        size_terms.write_out_in([*rows, *columns])
        try:
            self._write_pair(rows, columns)
        except WriteAgain as error:
            log.debug("%s; rows and columns apart", error)
            with self._several_kernels():
                self.codegen_node(node.node1)
                self.codegen_node(node.node2)
        self.free_buffers_in_scheduler()

    def _write_pair(self, rows: Sequence[Any], columns: Sequence[Any]) -> None:
        """Writes the kernel and its launch. Raises WriteAgain, with nothing written, where that cannot be."""
        sums = rows_and_columns.sums_of(columns)
        if sums is None:
            raise WriteAgain("other loops were fused with sums over columns", None)
        with rows_and_columns.elements_of_sums(columns):
            features = self._features_of([*rows, *columns])

            def write() -> None:
                with timed(Phase.TILING):
                    plan = plan_kernel(features, self._share)
                self._note_filled(plan.filled)
                if not ColumnSumsKernel.covers(plan):
                    raise WriteAgain("rows are not whole in the tile", None)
                kernel = ColumnSumsKernel(plan.lengths, features=features, plan=plan, sums=sums)
                self.codegen_node_schedule_with_kernel(features.node_schedule, kernel)
                if kernel.why_in_eager:
                    raise WriteAgain(f"{kernel.why_in_eager}, and eager operators know no partial sums", None)
                with V.set_kernel_handler(kernel):
                    source = kernel.codegen_kernel()
                self._define_and_launch(source, kernel, [*rows, *columns])

            self._with_fitting_share(write)

"""Combo kernels: one kernel for loops over many tensors, as an optimizer's step has them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy
from torch._inductor import config as inductor_config
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.scheduler import BaseSchedulerNode, ForeachKernelSchedulerNode
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen import attempt
from inductor_npu.codegen.emit.combo_kernel import ComboFeatures, NpuComboKernel
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.index import size_terms
from inductor_npu.codegen.scheduling.ahead_of_time import AheadOfTimeWorkers
from inductor_npu.codegen.scheduling.pairs import WritesPairs
from inductor_npu.codegen.scheduling.writing import WriteAgain
from inductor_npu.support.optional_steps import Kind, optional_step

log = logging.getLogger(__name__)

# Elements for each core of a loop whose launch costs little by comparison: slightly more than three tiles of 4096. A
# quarter and four times as many make the same kernels of the corpus (`python -m corpus.thresholds`).
_LARGE_LOOP = 13_107


class WritesCombos(WritesPairs):
    """A scheduling that writes one kernel for loops over many tensors; `_or_operators` writes a kernel for some loops,
    and `kernel_of` plans it.
    """

    _lookahead: AheadOfTimeWorkers
    _codegen_loops: Callable[[Sequence[Any]], None]

    def kernel_of(self, features: SIMDKernelFeatures, tiling_scores: Any = None) -> NpuKernel:
        """Returns the kernel of `features`, with axes and tiles of its own."""
        raise NotImplementedError

    def _or_operators(self, nodes: Sequence[Any], write: Callable[[Sequence[Any]], None]) -> None:
        raise NotImplementedError

    def codegen_combo_kernel(self, combo_kernel_node: ForeachKernelSchedulerNode) -> None:
        """Writes one kernel for many loops over different tensors, as far as that pays. A combo kernel that does not
        compile becomes a kernel for each of its loops.
        """
        with self._lookahead.compiling(combo_kernel_node):
            if attempt.current().allows_operators:
                with self._several_kernels():
                    for node in combo_kernel_node.get_subkernel_nodes():
                        self._or_operators(node.get_nodes(), self._codegen_loops)
            else:
                self._codegen_combos(combo_kernel_node.get_subkernel_nodes())
        self.free_buffers_in_scheduler()

    @optional_step(Kind.PLAN, "combo kernels")
    def _codegen_combos(self, nodes: Sequence[BaseSchedulerNode]) -> None:
        for group in self._combo_groups(nodes):
            try:
                self._with_fitting_share(partial(self._codegen_combo, group))
            except WriteAgain as error:
                log.debug("%s; one kernel for each of its loops", error)
                for features in group:
                    self._with_fitting_share(partial(self._codegen_combo, [features]))

    def _combo_groups(self, nodes: Sequence[BaseSchedulerNode]) -> list[list[SIMDKernelFeatures]]:
        """The loops of each kernel. A tensor that keeps every core busy by itself gets a kernel of its own, which all
        tensors of its shape share; no kernel has too many arguments.
        """
        groups: list[list[SIMDKernelFeatures]] = []
        together: list[SIMDKernelFeatures] = []
        arguments = 0
        for node in nodes:
            size_terms.write_out_in(node.get_nodes())
            features = self._features_of(node.get_nodes())
            if _is_large(features):
                groups.append([features])
                continue
            more = len(node.read_writes.reads) + len(node.read_writes.writes)
            if together and arguments + more > inductor_config.combo_kernel_max_num_args:
                groups.append(together)
                together, arguments = [], 0
            together.append(features)
            arguments += more
        return [*groups, together] if together else groups

    def _combo_source(self, group: Sequence[SIMDKernelFeatures]) -> tuple[str, NpuKernel | NpuComboKernel]:
        """The source of one kernel for the loops of `group`, and the kernel."""
        kernel: NpuKernel | NpuComboKernel
        if len(group) == 1:
            kernel = self.kernel_of(group[0])
            self.codegen_node_schedule_with_kernel(group[0].node_schedule, kernel)
        else:
            kernel = NpuComboKernel(ComboFeatures(group), self._share)
            self._note_filled(kernel.filled)
            for part in kernel.parts:
                self.codegen_node_schedule_with_kernel(part.features.node_schedule, part)
        with V.set_kernel_handler(kernel):
            return kernel.codegen_kernel(), kernel

    def _codegen_combo(self, group: Sequence[SIMDKernelFeatures]) -> None:
        """Writes one kernel for the loops of `group`, and its launch."""
        nodes = [node for features in group for node in features.scheduler_nodes()]
        source, kernel = self._combo_source(group)
        self._define_and_launch(source, kernel, nodes)

    def generate_combo_kernel_code(
        self, subkernel_nodes: list[BaseSchedulerNode], *args: Any, **kwargs: Any
    ) -> list[tuple[str, Any, list[BaseSchedulerNode]]]:
        """(source, kernel, loops) of each kernel, for timing only (benchmark_combo_kernel)."""
        node_of = {next(iter(self._features_of(node.get_nodes()).scheduler_nodes())): node for node in subkernel_nodes}
        with inductor_config.patch(benchmark_kernel=True):
            return [
                (*self._combo_source(group), [node_of[next(iter(part.scheduler_nodes()))] for part in group])
                for group in self._combo_groups(subkernel_nodes)
            ]


def _is_large(features: SIMDKernelFeatures) -> bool:
    """Whether loops have so many elements that joining them with others saves nothing."""
    elements = V.graph.sizevars.simplify(features.numel * features.reduction_numel)
    return (
        isinstance(elements, (int, sympy.Integer)) and elements >= _LARGE_LOOP * providers.current_target().vector_cores
    )

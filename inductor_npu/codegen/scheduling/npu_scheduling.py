"""Which loops become one kernel, and how a finished kernel enters the generated module."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    FusedSchedulerNode,
    SchedulerNode,
    WhyNoFuse,
)
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu import config
from inductor_npu.codegen import attempt
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan, plan_kernel, tile_loops
from inductor_npu.codegen.analysis.live_buffers import put_stored_reads_first
from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.emit import header
from inductor_npu.codegen.emit.column_sums import ColumnSumsKernel
from inductor_npu.codegen.emit.combo_kernel import NpuComboKernel
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.emit.operators_kernel import OperatorsKernel
from inductor_npu.codegen.emit.subdomain_kernel import KernelOfSubdomains
from inductor_npu.codegen.fallback import accuracy, eager_kernel
from inductor_npu.codegen.index import size_terms
from inductor_npu.codegen.scheduling import contraction_fusion, templates, tuning
from inductor_npu.codegen.scheduling.ahead_of_time import AheadOfTimeWorkers
from inductor_npu.codegen.scheduling.combos import WritesCombos
from inductor_npu.codegen.scheduling.fusion import Fusions
from inductor_npu.codegen.scheduling.kernel_reuse import LoopsKey, ReusableKernels, key_of_loops
from inductor_npu.codegen.scheduling.live_memory import LiveMemory
from inductor_npu.codegen.scheduling.writing import WriteAgain
from inductor_npu.codegen.templates.kernel import TemplateKernel
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.errors import KernelTooLargeError
from inductor_npu.runtime.async_compile import compile_in_process
from inductor_npu.support.optional_steps import Kind, optional_step

log = logging.getLogger(__name__)


class _KernelType:
    """Stands where an Inductor backend names the class of its kernels. Here the class depends on the loops, and the
    kernel on the share of the Unified Buffer that `scheduling` tries.
    """

    def __init__(self, scheduling: NpuScheduling) -> None:
        self._scheduling = scheduling

    def __call__(
        self, tiling: Any, *, features: SIMDKernelFeatures, tiling_scores: Any = None, **_choices: Any
    ) -> NpuKernel:
        """The kernel of `features`; its axes take the place of Inductor's `tiling`."""
        return self._scheduling.kernel_of(features, tiling_scores)

    @staticmethod
    def apply_feature_required_overrides(kernel_features: SIMDKernelFeatures, kernel_kwargs: dict[str, Any]) -> None:
        """Nothing: kernels here do not take the choices of Inductor that this would correct."""


class NpuScheduling(WritesCombos):
    """TritonScheduling for `npu`.

    It leaves out one feature of Inductor's Triton backend: TRITON_TEMPLATES, because matrix products and convolutions
    call the eager operator (no copy is made).
    """

    backend_features = OrderedSet(
        [
            BackendFeature.BUCKETIZE,
            BackendFeature.FOREACH,
            BackendFeature.INPLACE_BUFFERS,
            BackendFeature.MASKED_SCATTER_WITH_INDEX,
            BackendFeature.SCAN,
            BackendFeature.SORT,
            BackendFeature.TUPLE_REDUCTION,
        ]
    )

    @classmethod
    def get_backend_features(cls, device: Any) -> OrderedSet[BackendFeature]:
        return cls.backend_features

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self._fusions = Fusions()
        self._written = ReusableKernels()
        self._compile: Callable[[str, str], Exception | None] = compile_in_process
        self._lookahead = AheadOfTimeWorkers(self)
        self.kernel_type = _KernelType(self)

    def compile_for_others(
        self, written: ReusableKernels, compile_kernel: Callable[[str, str], Exception | None]
    ) -> None:
        """Has kernels kept in `written` and compiled by `compile_kernel` (name, source), which returns the error if it
        cannot. A forked worker calls this.
        """
        self._written, self._compile, self._lookahead = written, compile_kernel, AheadOfTimeWorkers(self)

    def can_fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """As Inductor's, but not where one kernel would be worse than two (see fusion.py), or more memory be live at
        once (see live_memory.py); and pairs of loops over rows and columns (see rows_and_columns.py).
        """
        is_pair = self._are_pair(node1, node2)
        if not is_pair and (any(node.is_template() for node in (node1, node2)) or not super().can_fuse(node1, node2)):
            return False
        reason = self._reason_against(node1, node2, is_pair)
        if reason is not None:
            WhyNoFuse(node1, node2)("%s", reason)
        return reason is None

    def _reason_against(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode, is_pair: bool) -> str | None:
        """Why one kernel would be worse than two, or, where this attempt at the graph allows it, why nobody knows."""
        if not attempt.current().allows_operators:
            reason = None if is_pair else self._fusions.reason_against(node1, node2)
            return reason or self._live_memory.reason_against(node1, node2)
        try:
            return self._fusions.reason_against(node1, node2)
        except Exception as error:  # noqa: BLE001 - the reason says it
            return eager_kernel.reason_of(error)

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    def fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusedSchedulerNode:
        """As Inductor's, and pairs."""
        if not attempt.current().allows_operators:
            self._live_memory.fuse(node1, node2)
        return super().fuse(node1, node2)

    @functools.cached_property
    def _live_memory(self) -> LiveMemory:
        return LiveMemory(self.scheduler)

    def codegen_node(self, node: FusedSchedulerNode | SchedulerNode) -> None:
        """As Inductor's, without its analysis of tiles for a GPU: see `get_tiling_and_scores`.

        Loops are in the order of the graph. The order in which they were fused depends on the rest of the graph, and
        would make different kernels of equal layers.
        """
        with self._lookahead.compiling(node):
            nodes = [part for part in node.get_nodes() if part.get_name() not in self.scheduler.removed_ops]
            nodes.sort(key=operator.attrgetter("min_order"))
            if nodes:
                self._or_operators(nodes, self._codegen_loops)

    @optional_step(Kind.PLAN, "loops")
    def _codegen_loops(self, nodes: Sequence[Any]) -> None:
        size_terms.write_out_in(nodes)
        self._codegen_nodes(nodes)

    def _or_operators(self, nodes: Sequence[Any], write: Callable[[Sequence[Any]], None]) -> None:
        """Writes the loops `nodes` by `write`; where that fails, and this attempt at the graph allows it, they become
        eager operators.
        """
        try:
            write(nodes)
        except Exception as error:
            if not attempt.current().allows_operators:
                raise
            kernel = OperatorsKernel(self._features_of(nodes), error)
            self._define_and_launch(kernel.codegen_kernel(), kernel, nodes)
            self.free_buffers_in_scheduler()

    @classmethod
    def get_tiling_and_scores(
        cls, node_schedule: Any, numel: sympy.Expr, reduction_numel: sympy.Expr = sympy.S.One, *_analysis: Any
    ) -> tuple[dict[str, sympy.Expr], None]:
        """No tiling of Inductor's: a kernel's own axes take its place."""
        return cls.create_tiling([numel], [reduction_numel]), None

    # The loops for which a kernel is being written, and the kernel.
    _loops: LoopsKey
    _kernel: NpuKernel

    def codegen_node_schedule(self, kernel_features: SIMDKernelFeatures) -> None:
        """As Inductor's. A kernel that turns out to be too large for the Unified Buffer is written again with smaller
        tiles, where a smaller block of the same kernel is not enough.
        """
        generate = super().codegen_node_schedule
        put_stored_reads_first(kernel_features.scheduler_nodes())
        self._loops = key_of_loops(kernel_features)  # before a kernel is written, which changes them
        self._with_fitting_share(lambda: generate(kernel_features))
        self._written.keep(self._loops, self._kernel)

    def create_kernel_choices(
        self, kernel_features: SIMDKernelFeatures, kernel_args: list[Any], kernel_kwargs: dict[str, Any]
    ) -> list[NpuKernel]:
        """The only kernel. Inductor's choices are for GPUs; one of them, for scans over long rows, has programs that
        wait for each other, which NPUs do not guarantee to finish.
        """
        self._lookahead.receive(self._written)
        known = self._written.find(self._loops, kernel_features)
        self._kernel = known or self.kernel_type(*kernel_args, **kernel_kwargs)
        return [self._kernel]

    def kernel_of(self, features: SIMDKernelFeatures, tiling_scores: Any = None) -> NpuKernel:
        """Returns the kernel of `features`, with axes and tiles of its own: a KernelOfSubdomains where predicates split
        its axes.
        """
        with timed(Phase.TILING):
            plan = plan_kernel(features, self._share)
            loops = tile_loops(features, plan, self._share)
        self._note_filled(max((loop.plan.filled for loop in loops), default=plan.filled))
        if loops:
            return KernelOfSubdomains(
                plan.lengths, features=features, plan=plan, loops=loops, tiling_scores=tiling_scores
            )

        def kernel_with(plan: KernelPlan) -> NpuKernel:
            return NpuKernel(plan.lengths, features=features, plan=plan, tiling_scores=tiling_scores)

        if tuning.is_wanted():
            plan = tuning.tuned(plan, self._share, lambda plan: self._timeable(features, kernel_with(plan)))
        kernel = kernel_with(plan)
        if plan.contraction is not None:
            apart = contraction_fusion.cycles_apart(features.scheduler_nodes(), self._fusions.estimates)
            kernel.cycles_of_product = plan.cycles, apart
        return kernel

    def codegen_node_schedule_with_kernel(self, node_schedule: Any, kernel: Any) -> None:
        """As Inductor's, unless the kernel is written already. A kernel with subdomains writes each of them."""
        if kernel.source is not None:
            return
        if isinstance(kernel, KernelOfSubdomains):
            node_schedule = kernel.schedule(node_schedule)
        super().codegen_node_schedule_with_kernel(node_schedule, kernel)

    def codegen_template(self, template_node: BaseSchedulerNode, *fused: Any, **choices: Any) -> str | None:
        """As Inductor's, but for templates that are kernels of ours."""
        if not templates.is_ours(template_node.node):
            return super().codegen_template(template_node, *fused, **choices)
        define = partial(templates.define, self, template_node)
        written: list[TemplateKernel] = []
        self._with_fitting_share(lambda: written.append(define(self._share, self._note_filled)))
        templates.launch(self, template_node, written[-1])
        return None

    def _timeable(self, features: SIMDKernelFeatures, kernel: NpuKernel) -> str:
        """The source of a kernel for timing only, with functions that make its inputs and launch it."""
        self.codegen_node_schedule_with_kernel(features.node_schedule, kernel)
        with V.set_kernel_handler(kernel), inductor_config.patch(benchmark_kernel=True):
            return kernel.codegen_kernel()

    def codegen_comment(self, node_schedule: Any, *args: Any, **kwargs: Any) -> None:
        """The user's source lines above a launch, which may differ at each launch; then Inductor's comment."""
        wrapper = V.graph.wrapper_code
        for line in header.source_lines(node_schedule):
            wrapper.make_comment(f"{wrapper.comment} {line}")
        super().codegen_comment(node_schedule, *args, **kwargs)

    def _emit_kernel_to_wrapper(
        self,
        wrapper: Any,
        kernel: Any,
        src_code: str,
        kernel_name: str,
        subs_name: str,
        node_schedule: Any,
        kernel_path: str,
        get_kernel_metadata: Any,
    ) -> None:
        """Compiles the kernel now, so that one that cannot be compiled is replaced while its loops are still known.

        The compiled kernel is kept for the generated module, which finds it by its source. Where compilation fails, the
        module gets the same loops as eager operators, under the same name and with the same arguments, and a warning;
        with config.strict the error is raised.
        """

        def define(source: str) -> None:
            origins, detailed_origins = get_kernel_metadata(node_schedule, wrapper)
            wrapper.define_kernel(kernel_name, source, f"# kernel path: {kernel_path}\n{origins}\n{detailed_origins}")

        if kernel.why_in_eager:
            define(eager_kernel.made_of(kernel, subs_name, src_code))
            return
        src_code, kernel_path = header.with_operators(src_code, node_schedule)
        failure = self._compile(subs_name, src_code)
        smaller = self._smaller_share() if isinstance(failure, KernelTooLargeError) else None
        if failure is not None and (isinstance(kernel, (NpuComboKernel, ColumnSumsKernel)) or smaller is not None):
            wrapper.src_to_kernel = {src: name for src, name in wrapper.src_to_kernel.items() if name != kernel_name}
            raise WriteAgain(f"{kernel_name} does not compile", smaller) from failure
        provenance.remember(subs_name, src_code, node_schedule, failure)
        if failure is None:
            with inductor_config.patch(compile_threads=1):  # it is compiled: do not start a pool of processes
                super()._emit_kernel_to_wrapper(
                    wrapper, kernel, src_code, kernel_name, subs_name, node_schedule, kernel_path, get_kernel_metadata
                )
            if config.accuracy:
                accuracy.compare(wrapper, kernel, kernel_name, subs_name, src_code, node_schedule)
            return
        define(eager_kernel.replace(kernel, kernel_name, failure))

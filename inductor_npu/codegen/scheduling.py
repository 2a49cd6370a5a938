"""Which loops become one kernel, and how a finished kernel enters the generated module."""

from __future__ import annotations

import logging
from typing import Any

import sympy
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import TritonKernel, TritonScheduling
from torch._inductor.scheduler import BaseSchedulerNode, WhyNoFuse
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen import eager_kernel, listing, provenance, tuning
from inductor_npu.codegen.async_compile import compile_in_process
from inductor_npu.codegen.axes import CannotSplit
from inductor_npu.codegen.fusion import Fusions
from inductor_npu.codegen.kernel import NpuTritonKernel
from inductor_npu.codegen.npu_kernel import NpuKernel
from inductor_npu.codegen.piece_kernel import KernelInPieces
from inductor_npu.codegen.shape import pieces_with_plans, shape_of
from inductor_npu.errors import KernelTooLargeError
from inductor_npu.tiling import limits
from inductor_npu.tiling.plan import TilePlan

log = logging.getLogger(__name__)


class _WriteAgain(Exception):
    """A kernel does not compile, and there is another way to write it."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.does_not_fit = isinstance(failure, KernelTooLargeError)


class NpuScheduling(TritonScheduling):
    """TritonScheduling for `npu`.

    One feature of Inductor's Triton backend is left out: TRITON_TEMPLATES, because matrix products and convolutions
    call the eager operator (no copy is made).
    """

    kernel_type = NpuTritonKernel
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

    def can_fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """As Inductor's, but not where one kernel would be worse than two (see fusion.py)."""
        if not super().can_fuse(node1, node2):
            return False
        reason = self._fusions.reason_against(node1, node2)
        if reason is not None:
            WhyNoFuse(node1, node2)("%s", reason)
        return reason is None

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    # What part of the Unified Buffer tiles may fill, as estimated: the next smaller one where the compiler disagrees.
    # None stands for Inductor's own shape of kernels.
    _shares: tuple[float | None, ...] = (0.8, 0.4, 0.2, 0.1, None)
    _share: float | None = 0.8

    def codegen_node_schedule(self, kernel_features: SIMDKernelFeatures) -> None:
        """As Inductor's; a kernel that turns out to be too large for the Unified Buffer is written again with smaller
        tiles, where a smaller block of the same kernel is not enough; one that does not compile, in Inductor's shape.
        """
        self._share = self._shares[0]
        while True:
            try:
                super().codegen_node_schedule(kernel_features)
                return
            except _WriteAgain as error:
                following = self._shares[self._shares.index(self._share) + 1]
                self._share = following if error.does_not_fit else None
                log.debug("%s; writing it again", error)

    def create_kernel_choices(
        self, kernel_features: SIMDKernelFeatures, kernel_args: list[Any], kernel_kwargs: dict[str, Any]
    ) -> list[TritonKernel]:
        """As Inductor's, but a scan over a very long row is a loop in one program, as every other scan is.

        Inductor's kernel for long rows has a program for each part of the row; a program waits in a spin loop for what
        the one before it leaves in memory. NPUs promise neither that waiting programs make way for others nor
        that memory is seen in time.
        """
        if (shaped := self._shaped_kernel(kernel_features, kernel_kwargs)) is not None:
            return [shaped]
        if not any(node.is_split_scan() for node in kernel_features.scheduler_nodes()):
            return super().create_kernel_choices(kernel_features, kernel_args, kernel_kwargs)
        loop = {**kernel_kwargs, "override_cooperative_reduction": False, "override_persistent_reduction": False}
        loop = V.choices.triton_kernel_kwargs(self.kernel_type, kernel_features, kernel_args, loop)
        return [self.kernel_type(*kernel_args, **loop)]

    def _shaped_kernel(self, features: SIMDKernelFeatures, kernel_kwargs: dict[str, Any]) -> NpuKernel | None:
        """A kernel with one axis for each loop variable, if its loops have one shape."""
        if self._share is None:
            return None
        try:
            axes, work, plan = shape_of(list(features.scheduler_nodes()), features, self._share)
        except CannotSplit as error:
            log.debug("no common axes: %s", error)
            return None
        tiling = {axis.prefix: axis.length for axis in (*axes.pointwise, *axes.reduction)}
        scores = kernel_kwargs["tiling_scores"]
        if pieces := pieces_with_plans(list(features.scheduler_nodes()), axes, self._share):
            return KernelInPieces(tiling, features=features, axes=axes, pieces=pieces, tiling_scores=scores)

        def kernel_with(tile: TilePlan) -> NpuKernel:
            return NpuKernel(tiling, features=features, axes=axes, plan=tile, tiling_scores=scores)

        if tuning.is_wanted():
            plan = tuning.tuned(work, plan, self._share, lambda tile: self._timeable(features, kernel_with(tile)))
        return kernel_with(plan)

    def codegen_node_schedule_with_kernel(self, node_schedule: Any, kernel: Any) -> None:
        """As Inductor's; of a kernel in pieces each piece is written."""
        if isinstance(kernel, KernelInPieces):
            node_schedule = kernel.schedule(node_schedule)
        super().codegen_node_schedule_with_kernel(node_schedule, kernel)

    def _timeable(self, features: SIMDKernelFeatures, kernel: NpuKernel) -> str:
        """The source of a kernel that nobody else will use, with functions that make its inputs and launch it."""
        self.codegen_node_schedule_with_kernel(features.node_schedule, kernel)
        with V.set_kernel_handler(kernel), inductor_config.patch(benchmark_kernel=True):
            return kernel.codegen_kernel()

    def generate_combo_kernel_code(
        self,
        subkernel_nodes: list[BaseSchedulerNode],
        custom_part_algorithm: bool,
        enable_autotune: bool,
        *args: Any,
        **kwargs: Any,
    ) -> list[tuple[Any, Any, Any]]:
        """One kernel for many loops over different tensors, as an optimizer's step has them.

        Blocks are always arguments of the kernel ("autotune"), so that `tiling.heuristics` chooses them for the Unified
        Buffer and the grid limit; Inductor would write blocks for GPUs into the source. A tensor that keeps
        every core busy by itself gets a kernel by itself, which all tensors of that shape share.
        """
        if "per_subkernel_blocks" in kwargs:
            kwargs["per_subkernel_blocks"] = False
        generate = super().generate_combo_kernel_code
        together = [node for node in subkernel_nodes if not _is_large(node)]
        groups = [[node] for node in subkernel_nodes if node not in together]
        if together:
            groups.append(together)
        with inductor_config.patch(combo_kernel_per_subkernel_blocks=False):  # torch 2.11 reads the knob itself
            return [code for group in groups for code in generate(group, custom_part_algorithm, True, *args, **kwargs)]

    def codegen_comment(self, node_schedule: Any, *args: Any, **kwargs: Any) -> None:
        """The user's source lines above a launch, which may be others at each launch; then Inductor's comment."""
        wrapper = V.graph.wrapper_code
        for line in listing.source_lines(node_schedule):
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

        The compiled kernel is kept for the generated module, which finds it by its source. Where compilation fails,
        the module gets the same loops written as eager operators under the same name and with the same arguments, and
        a warning; with config.strict the error is raised.
        """
        src_code, kernel_path = listing.with_operators(src_code, node_schedule)
        failure = compile_in_process(subs_name, src_code)
        if failure is not None and isinstance(kernel, NpuKernel):
            wrapper.src_to_kernel = {src: name for src, name in wrapper.src_to_kernel.items() if name != kernel_name}
            raise _WriteAgain(failure)
        provenance.remember(subs_name, src_code, node_schedule, failure)
        if failure is None:
            super()._emit_kernel_to_wrapper(
                wrapper, kernel, src_code, kernel_name, subs_name, node_schedule, kernel_path, get_kernel_metadata
            )
            return
        origins, detailed_origins = get_kernel_metadata(node_schedule, wrapper)
        source = eager_kernel.replace(kernel, kernel_name, failure)
        comment = f"# kernel path: {kernel_path}\n{origins}\n{detailed_origins}"
        wrapper.define_kernel(kernel_name, source, comment)


def _is_large(node: BaseSchedulerNode) -> bool:
    """Whether a loop has so many elements that joining it with others saves nothing."""
    elements = V.graph.sizevars.simplify(sympy.prod(node.group[1]))
    return isinstance(elements, (int, sympy.Integer)) and elements >= limits.LARGE_LOOP

"""One Triton kernel for an NPU: Inductor's, with the decisions that depend on the chip made for the chip."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import sympy
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.dependencies import MemoryDep
from torch._inductor.runtime.hints import ReductionHint
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.codegen.overrides import NpuKernelOverrides
from inductor_npu.tiling import footprint, limits


class NpuTritonKernel(TritonKernel):
    """TritonKernel whose loops are shaped for a few cores with a large Unified Buffer each.

    - a reduction keeps the whole row on chip while it fits, which is far longer than a GPU's registers allow;
    - rows share a program (`XBLOCK` stays free), so that the number of programs never exceeds the target's grid limit;
    - block sizes come from `inductor_npu.tiling.heuristics`, which the generated source imports under Inductor's name.
    """

    overrides = NpuKernelOverrides

    @classmethod
    @lru_cache(None)
    def gen_common_triton_imports(cls) -> str:
        """Inductor's imports, then ours: the name `triton_heuristics` in generated code means our block-size
        heuristics.
        """
        imports = super().gen_common_triton_imports()
        return (
            imports
            + "from inductor_npu.codegen import device_functions\n"
            + "from inductor_npu.tiling import heuristics as triton_heuristics\n"
        )

    def should_use_persistent_reduction(self) -> bool:
        """Keep the row on chip whenever it fits, unless rows lie side by side in memory and the row is long.

        In the latter case (an outer reduction) a loop over the row reads long contiguous pieces and needs no padding
        to a power of two. A row that does not fit, with all of the kernel's tensors, is read in a loop.
        """
        if not self.inside_reduction:
            return False
        longest = config.persistent_row
        if self.features.get_reduction_hint(self.tiling_scores) not in (ReductionHint.INNER, ReductionHint.OUTER_TINY):
            longest = limits.PERSISTENT_OUTER_ROW
        row = self.features.reduction_numel
        if not V.graph.sizevars.statically_known_leq(row, longest):
            return False
        length = int(row) if isinstance(row, (int, sympy.Integer)) else longest
        sizes = [V.graph.get_dtype(name).itemsize for name in self._row_tensors(length)]
        return footprint.row_fits(length, sizes, providers.current_target().unified_buffer)

    def _row_tensors(self, row: int) -> list[str]:
        """The tensors of which the kernel holds whole rows; others have one element a row."""
        return [
            name
            for name, accesses in self.features.buf_accesses().items()
            if any(
                isinstance(access, MemoryDep) and not V.graph.sizevars.statically_known_lt(access.get_numel(), row)
                for access in accesses
            )
        ]

    def should_use_cooperative_reduction(self) -> bool:
        """Never: programs of such a reduction wait for each other, which NPUs do not promise to work."""
        return False

    def want_no_x_dim(self) -> bool:
        """Never one row per program: the number of rows may exceed the grid limit, and short rows would make tiny
        programs.
        """
        return False

    def max_block(self, prefix: str) -> int:
        """The largest block the heuristics may choose for an axis; a mask is dropped where it divides its length.

        No block is longer than the tile, nor than its axis rounded up to a power of two. `x` grows beyond that where
        there would be more programs than the grid limit allows: for a length known now by what is needed, for one
        that is only known at run time by as much as the Unified Buffer can ever hold.
        """
        limit = super().max_block(prefix)
        if self.fixed_config:
            return limit
        if prefix == "x" and self.is_combo_kernel:
            return limits.LARGEST_X_BLOCK  # chosen for all parts of the kernel: it may be longer than this part's x
        if prefix != "x":
            return min(limit, config.reduction_tile) if prefix.startswith("r") else limit
        numel = V.graph.sizevars.simplify(self.numels["x"])
        if not isinstance(numel, (int, sympy.Integer)):
            return limits.LARGEST_X_BLOCK
        if self.inside_reduction and self.persistent_reduction:
            row = math.prod(self._get_persistent_RBLOCK(tree.numel) for tree in self.range_trees if tree.is_reduction)
            limit = min(limit, max(1, config.reduction_tile // row))
        limit = min(limit, next_power_of_2(int(numel)))
        return limits.x_block_for_grid(int(numel), limit, providers.current_target().max_grid)

    def bucketize(
        self,
        values: CSEVariable,
        boundaries: tuple[str, sympy.Expr, sympy.Expr, sympy.Expr],
        *args: Any,
        **kwargs: Any,
    ) -> CSEVariable:
        """As Inductor's, with NaN beyond all boundaries in every torch."""
        place = super().bucketize(values, boundaries, *args, **kwargs)
        text = f"device_functions.nan_beyond({place}, {values}, {self.index_to_str(boundaries[1])})"
        result = self.cse.generate(self.compute, text, dtype=place.dtype, shape=place.shape)
        result.mask_vars = place.mask_vars
        return result

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        """What our heuristics and launcher need beyond Inductor's: the target's limits, as plain data in the kernel's
        source; block limits that hold for any kernel.
        """
        target = providers.current_target()
        return {
            **super().inductor_meta_common(),
            "npu_max_grid": target.max_grid,
            "npu_unified_buffer": target.unified_buffer,
            "npu_cores": target.vector_cores,
            "npu_tile": min(config.pointwise_tile, config.reduction_tile),
            "npu_max_x_block": limits.LARGEST_X_BLOCK,
        }

    def codegen_kernel(self, name: str | None = None) -> str:
        """Inductor's source, with this kernel's own limits among the metadata common to all."""
        # torch 2.11 has no hook per kernel; the call for the common metadata, a class method, is in all versions.
        own = {
            "npu_tile": config.reduction_tile if self.inside_reduction else config.pointwise_tile,
            "npu_max_x_block": self.max_block("x"),
        }
        self.__dict__["inductor_meta_common"] = lambda: {**type(self).inductor_meta_common(), **own}
        return super().codegen_kernel(name)

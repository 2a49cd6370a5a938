"""One Triton kernel for many loops over different tensors, as in an optimizer's step.

    first = tl.program_id(0)
    for tile in range(first, x0_tiles, tl.num_programs(0)):  # the tiles of part 0
        ...
    first = (first + tl.num_programs(0) - x0_tiles % tl.num_programs(0)) % tl.num_programs(0)
    for tile in range(first, x1_tiles, tl.num_programs(0)):  # the tiles of part 1
        ...

Every part has axes, a tile and a loop of its own, as if it were a kernel by itself. Programs take tiles in turn, as if
the tiles of all parts were one sequence, so that small tensors go to different cores. Tiles of different parts are
never on chip together: the kernel needs as much Unified Buffer as its largest part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesRoot
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures

from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan, plan_kernel
from inductor_npu.codegen.emit.emitted import EmittedKernel, Tiled, next_first
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.emit.uncounted import Uncounted


class ComboFeatures(SIMDKernelFeatures):
    """The loops of all parts of a combo kernel."""

    def __init__(self, parts: Sequence[SIMDKernelFeatures]) -> None:
        some = next((part for part in parts if part.is_reduction()), parts[0])
        super().__init__([entry for part in parts for entry in part.node_schedule], some.numel, some.reduction_numel)
        self.parts = parts

    def select_index_dtype(self) -> torch.dtype:
        """An index type that suffices for every part."""
        return max((part.select_index_dtype() for part in self.parts), key=lambda dtype: dtype.itemsize)


class PartKernel(NpuKernel, Uncounted):
    """One of the kernels in a combo kernel. Its blocks are constants in the source; its first tile goes to the program
    after the one that has the last tile of the part before.
    """

    @property
    def arguments_for_blocks(self) -> dict[str, int]:
        return {}

    def loop_over_tiles(self, tiles: str) -> str:
        """The loop over tiles. A single number has none: the loop would look like one over single elements."""
        self.tiles = tiles or "1"
        if not tiles and not self.tile.order and not self.tile.loops:
            return "if first == 0:"
        return f"for tile in range(first, {self.tiles}, tl.num_programs(0)):"


class NpuComboKernel(EmittedKernel):
    """Parts one after the other, with the arguments of all. `filled`: estimated bytes that the largest tile fills."""

    # Attributes of Inductor's class that are assigned here.
    body: IndentedBuffer

    def __init__(self, features: ComboFeatures, share: float) -> None:
        plans = [plan_kernel(part, share, number) for number, part in enumerate(features.parts)]
        self.filled = max(plan.filled for plan in plans)
        self.parts = [_part(part, plan) for part, plan in zip(features.parts, plans, strict=True)]
        lengths = {axis.prefix: axis.length for axis in self._dynamic_axes()}
        super().__init__(
            lengths, features=features, override_persistent_reduction=False, override_cooperative_reduction=False
        )
        for part in self.parts:
            part.args = self.args
            part.helper_functions = self.helper_functions
            part.mutations = self.mutations
            part.removed_buffers = self.removed_buffers
            part.inplaced_to_remove = self.inplaced_to_remove
            part.inplace_update_buffers = self.inplace_update_buffers

    def _dynamic_axes(self) -> list[Axis]:
        """The axes whose lengths are arguments; all other lengths are constants in the source."""
        axes = [axis for part in self.parts for axis in part.axis_of.values()]
        return [axis for axis in axes if not isinstance(axis.length, (int, sympy.Integer))]

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[IterationRangesRoot]:
        return [
            IterationRangesRoot(
                f"{axis.prefix}index",
                axis.length,
                axis.prefix,
                position,
                self,
                is_loop=False,
                tensor_dim=None,
                grid_dim=None,
                has_zdim=False,
            )
            for position, axis in enumerate(self._dynamic_axes())
        ]

    def codegen_range_tree(self) -> None:
        """Nothing: every part writes its own axes."""

    def codegen_reduction_numels(self, buffer: IndentedBuffer) -> None:
        """Nothing: every part has reduced axes of its own."""

    def codegen_body(self) -> None:
        for part in self.parts:
            part.codegen_body()

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        self.body.writeline(f"first = tl.program_id(0){self.index_cast}")
        for number, part in enumerate(self.parts):
            part.triton_meta = self.triton_meta
            part.codegen_static_numels(code)
            self.body.writeline(f"# part {number}")
            self.body.splice(part.body)
            if number < len(self.parts) - 1:
                self.body.writeline(next_first("first", part.tiles))

    def tiled(self) -> list[Tiled]:
        dynamic = {axis.prefix for axis in self._dynamic_axes()}
        return [
            [
                (
                    f"{axis.prefix}numel" if axis.prefix in dynamic else int(axis.length),
                    part.tile.blocks.get(axis.prefix),
                )
                for axis in part.axes.pointwise
            ]
            for part in self.parts
        ]

    def _get_heuristic(self) -> str:
        return "foreach"


def _part(features: SIMDKernelFeatures, plan: KernelPlan) -> PartKernel:
    return PartKernel(plan.lengths, features=features, plan=plan)

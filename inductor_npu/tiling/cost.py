"""Estimates what a kernel costs with a tile, before there is any code: bytes, cycles, which pipe bounds it.

The formulas are those of docs/ascend.md, "Cost model", in terms of what the planner knows instead of the final IR. They
compare tiles of one kernel, or one kernel with several that do the same. They do not predict times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from inductor_npu.target import NpuTarget
from inductor_npu.tiling.plan import AccessSummary, KernelSummary, TilePlan

# Passes of the vector core over a tile for operators that need several, as Ascend's compiler makes them
# (`python -m corpus.passes`; docs/tiling.md has its table). TURN_PASSES: a transpose on chip.
PASSES = {
    "erf": 24, "sin": 39, "cos": 44, "tan": 75, "tanh": 24, "sigmoid": 5, "pow": 134, "rsqrt": 3, "where": 2,
    "remainder": 358, "fmod": 349,
}  # fmt: skip
REDUCTION_PASSES = 2
TURN_PASSES = 2


@dataclass(frozen=True)
class Cost:
    """The cost of one launch.

    `mte2`, `vector`, `mte3` and `scalar` are cycles of the busiest core. `fill` is cycles that no other pipe hides: the
    first load and the last store. `bytes_moved` is in bytes, over all cores.
    """

    mte2: float
    vector: float
    mte3: float
    scalar: float
    fill: float
    bytes_moved: float

    @property
    def bound(self) -> float:
        """Cycles of the pipe that has most to do."""
        return max(self.mte2, self.vector, self.mte3, self.scalar)

    @property
    def cycles(self) -> float:
        """Cycles of the busiest core from its first load to its last store."""
        return self.bound + self.fill


class _Estimate:
    def __init__(self, work: KernelSummary, plan: TilePlan, chip: NpuTarget) -> None:
        self.work, self.plan, self.chip = work, plan, chip
        self.lengths = {axis.name: axis.length for axis in work.axes}

    def steps(self, axis: str) -> int:
        """Tiles, or iterations of a loop, along an axis."""
        return -(-self.lengths[axis] // self.plan.blocks.get(axis, 1))

    def items(self, axes: Iterable[str], padded: bool) -> float:
        """Elements of a tile along `axes`: with its masked lanes if `padded`, else without them, on average."""
        return math.prod(
            self.plan.blocks.get(axis, 1) if padded else self.lengths[axis] / self.steps(axis) for axis in axes
        )

    def rounds(self, axes: frozenset[str]) -> int:
        """How often one tile does what depends on `axes`."""
        loops = self.plan.loops
        inside = [axis for axis in loops if axis in axes]
        return math.prod(self.steps(axis) for axis in loops[: loops.index(inside[-1]) + 1]) if inside else 1

    def transfer(self, access: AccessSummary) -> tuple[float, float, float]:
        """Bytes, cycles of the transfer's pipe and cycles of the scalar core, for one tile."""
        dimensions = [axis for axis in self.plan.order if axis in (access.rows if access.range_length else access.axes)]
        items, rounds = self.items(dimensions, padded=False) * max(1, access.range_length), self.rounds(access.axes)
        if access.axes.intersection(self.plan.loops):
            rounds *= max(1, access.passes)
        if access.indirect.intersection(dimensions):
            return rounds * items * access.item_size, 0.0, rounds * items * self.chip.indirect_access_cycles
        if access.range_length:
            cycles = items * access.item_size / self.chip.device_bytes_per_cycle + self.chip.transfer_cycles
            return rounds * items * access.item_size, rounds * cycles, 0.0
        if not dimensions:
            return rounds * access.item_size, 0.0, rounds * float(self.chip.scalar_access_cycles)
        row = self.items([access.contiguous], padded=False) if access.contiguous in dimensions else 1.0
        burst = math.ceil(row * access.item_size / self.chip.burst_bytes) * self.chip.burst_bytes
        cycles = items / row * burst / self.chip.device_bytes_per_cycle + self.chip.transfer_cycles
        return rounds * items * access.item_size, rounds * cycles, 0.0

    def turned(self, access: AccessSummary) -> bool:
        """Whether the tile has to be transposed on chip for `access`."""
        dimensions = [axis for axis in self.plan.order if axis in access.axes]
        return access.contiguous in dimensions and dimensions[-1] != access.contiguous

    def vector(self) -> float:
        """Cycles of the vector core for one tile."""

        def cycles(axes: frozenset[str], size: int, passes: float) -> float:
            repeats = math.ceil(self.items(axes & {*self.plan.order}, padded=True) * size / self.chip.vector_bytes)
            return self.rounds(axes) * passes * (repeats + self.chip.instruction_cycles)

        turns = sum(cycles(access.axes, 4, TURN_PASSES) for access in self.work.accesses if self.turned(access))
        return turns + sum(cycles(axes, size, passes) for (axes, size), passes in self.work.operations.items())

    def launch(self) -> Cost:
        """The cost of all tiles, given that the busiest core has `most` of them."""
        tiles = math.prod(self.steps(axis.name) for axis in self.work.axes if not axis.is_reduction)
        most = -(-tiles // self.chip.vector_cores)
        read = written = mte2 = mte3 = scalar = 0.0
        for access in self.work.accesses:
            moved, cycles, single = self.transfer(access)
            scalar += single
            if access.is_store:
                written, mte3 = written + moved, mte3 + cycles
            else:
                read, mte2 = read + moved, mte2 + cycles
        vector = self.vector()
        rounds = math.prod(self.steps(axis) for axis in self.plan.loops)
        fill = (mte2 + vector + mte3 - max(mte2, vector, mte3)) / rounds
        return Cost(most * mte2, most * vector, most * mte3, most * scalar, fill, tiles * (read + written))


def cost(work: KernelSummary, plan: TilePlan, chip: NpuTarget) -> Cost:
    """Returns the estimated cost of one launch of the kernel `work` with the tile `plan` on `chip`."""
    return _Estimate(work, plan, chip).launch()

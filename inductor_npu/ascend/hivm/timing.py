"""How long a launch with dots takes: the cube core's side, the vector cores' side, and what L2 saves.

- *L2.* What all cores together touch fits in L2 or does not. If it does, each byte comes from memory once, and all
  later reads, and the workspace, move at L2's bandwidth. If not, everything moves at that of memory.
- *Cube side.* Loads run beside products where operands have two buffers in L1. The accumulator leaves L0C beside the
  next product only where L0C has two.
- *Vector side.* Its tiles have one buffer: loads, work and stores take turns.
- *Together.* With a workspace for several tiles the sides overlap, but for the first tile; else they take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor_npu.target import NpuTarget

from .cube import CubeFacts


@dataclass(frozen=True)
class Touched:
    """Bytes of the arguments that a function reads, and of those that it writes."""

    read: int
    written: int


@dataclass
class Side:
    """One function of a kernel: the work of its busiest core, and of all; by the names of `work.VALUES`."""

    work: dict[str, float]
    total: dict[str, float]
    touched: Touched


def launch_time(sides: dict[str, Side], cube: CubeFacts, target: NpuTarget, assumptions: dict[str, None]) -> float:
    """Cycles of a launch. Reduces the transfers of `sides` to what L2 leaves of them."""
    touched = sum(side.touched.read + side.touched.written for side in sides.values())
    touched += cube.workspace_bytes * target.cube_cores
    if touched <= target.l2:
        assumptions["what the launch touches fits in L2: each byte comes from memory once"] = None
        for side in sides.values():
            _through_l2(side, target)
    core = sides["AIC"].work
    drain = 0 if cube.l0c_doubled else core["fix"]
    products = max(core["product"] + drain, core["fix"])
    cube_side = max(core["mte2"], products) if cube.l1_doubled else core["mte2"] + products
    if "AIV" not in sides:
        return cube_side
    vectors = sides["AIV"].work
    vector_side = vectors["mte2"] + vectors["vector"] + vectors["mte3"] + vectors["scalar"]
    if cube.workspace_depth < 2:
        return cube_side + vector_side
    tiles = max(1.0, core["drained"])
    return max(cube_side, vector_side) + min(cube_side, vector_side) / tiles


def _through_l2(side: Side, target: NpuTarget) -> None:
    share = 1 / target.l2_to_memory
    for pipes, moved, touched in (
        (("mte2",), side.total["read"], side.touched.read),
        (("mte3", "fix"), side.total["written"], side.touched.written),
    ):
        if moved:
            for pipe in pipes:
                side.work[pipe] *= min(1.0, max(share, touched / moved))

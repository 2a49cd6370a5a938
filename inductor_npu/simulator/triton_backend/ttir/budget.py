"""How much of the on-chip buffers a kernel needs: a model of how Ascend's compiler plans them.

The Unified Buffer (`unified_buffer.py`) is that of one vector core, which has half of each tile beside a cube core
(`sub_blocks.py`); L1 and L0C (`cube_memory.py`) are the cube core's. docs/ascend.md says how well this agrees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....target import NpuTarget
from .cube_memory import l0c_peak, l1_peak
from .cube_values import CubeValues
from .forms import Forms
from .ir import Function
from .stages import with_stages_in_halves
from .sub_blocks import share_of_one_core
from .unified_buffer import LiveTile, Peak, unified_buffer_peak


@dataclass
class Footprint:
    """Peaks in bytes, and the tiles that are live at each, largest first. `is_shared`: each vector core has a half of
    the rows.
    """

    unified_buffer: int = 0
    l1: int = 0
    l0c: int = 0
    largest: list[LiveTile] = field(default_factory=list)
    largest_in_l1: list[LiveTile] = field(default_factory=list)
    largest_in_l0c: list[LiveTile] = field(default_factory=list)
    is_shared: bool = False


def footprint(kernel: Function, target: NpuTarget) -> Footprint:
    """What `kernel`, with all calls inlined, needs of `target`'s on-chip buffers."""
    forms = Forms(kernel)
    cube = CubeValues(kernel, forms)
    l1 = l0c = Peak()
    if cube.dots:
        l1, l0c = l1_peak(kernel, target, cube), l0c_peak(kernel, target, cube)
    half = share_of_one_core(kernel, target, forms, cube)
    tiles = _tiles(half or kernel, target)
    if cube.dots and tiles.bytes > target.unified_buffer:
        own = Forms(half or kernel)
        stages = with_stages_in_halves(half or kernel, own, CubeValues(half or kernel, own))
        if stages is not None:
            tiles = min(tiles, _tiles(stages, target), key=lambda peak: peak.bytes)
    return Footprint(
        tiles.bytes, l1.bytes, l0c.bytes, tiles.largest, l1.largest, l0c.largest, is_shared=half is not None
    )


def _tiles(kernel: Function, target: NpuTarget) -> Peak:
    forms = Forms(kernel)
    return unified_buffer_peak(kernel, target, forms, CubeValues(kernel, forms))

"""The tiles that max-autotune tries beside the one that the rules of plan.py choose: larger and smaller blocks, blocks
split differently between the tile's dimensions, a row whole instead of in a loop and the other way round.

Only tiles that are estimated to fit the Unified Buffer are candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu.target import NpuTarget
from inductor_npu.tiling.cost import cost
from inductor_npu.tiling.plan import KernelSummary, TilePlan, footprint

# The largest factor between a block of a candidate and that of the default.
_FARTHEST = 4


def candidates(work: KernelSummary, default: TilePlan, chip: NpuTarget, share: float, most: int) -> list[TilePlan]:
    """Returns `default` and up to `most - 1` other tiles.

    The cost model orders the others, the cheapest first; of equals the one nearest to `default` comes first. Every tile
    fills at most `share` (0 to 1) of the Unified Buffer, as estimated. Keys of blocks are axis names, as in `work`.
    """
    room = max(chip.unified_buffer * share, footprint(default.blocks, work))
    others: dict[tuple[object, ...], TilePlan] = {}
    for tile in _around(work, default, chip):
        if footprint(tile.blocks, work) <= room:
            others.setdefault(_key(tile), tile)
    others.pop(_key(default), None)
    ranked = sorted(others.values(), key=lambda tile: cost(work, tile, chip).cycles)  # stable: the nearest first
    return [default, *ranked[: most - 1]]


def _key(tile: TilePlan) -> tuple[object, ...]:
    return tile.order, tuple(sorted(tile.blocks.items())), tile.loops


def _around(work: KernelSummary, default: TilePlan, chip: NpuTarget) -> Iterator[TilePlan]:
    """Yields tiles with other blocks along the same dimensions, from the nearest to the default outwards."""
    dimensions = default.order
    factors = [2**power for power in range(_FARTHEST.bit_length())]
    steps = sorted({*factors, *(1 / factor for factor in factors)})
    changes = sorted(
        itertools.product(steps, repeat=len(dimensions)),
        key=lambda change: (sum(max(factor, 1 / factor) for factor in change), change),
    )
    for change in changes:
        tile = _changed(work, default, dict(zip(dimensions, change, strict=True)), chip)
        if tile is not None:
            yield tile


def _changed(work: KernelSummary, default: TilePlan, factors: dict[str, float], chip: NpuTarget) -> TilePlan | None:
    """Returns `default` with each block times its factor; None if there is no such tile."""
    axes = {axis.name: axis for axis in work.axes}
    blocks: dict[str, int] = {}
    loops = set(default.loops)
    for name, factor in factors.items():
        axis, block = axes[name], int(default.blocks[name] * factor)
        if block < 2 or block > max(next_power_of_2(axis.length), default.blocks[name]):
            return None
        if name in work.whole and block < axis.length:
            return None
        blocks[name] = block
        if not axis.is_reduction or not axis.is_static:
            continue
        if block >= axis.length:
            loops.discard(name)
        elif work.scans or work.sorts:  # a scan or sort fixes the order of its axes
            return None
        else:
            loops.add(name)
    rows = math.prod(block for name, block in blocks.items() if not axes[name].is_reduction)
    # A scanned tile is transposed, so that its rows are adjacent: fewer rows than fill a block cost a whole one.
    if work.scans and blocks != default.blocks and rows < chip.shortest_row:
        return None
    if math.prod(blocks.values()) < min(chip.compared_at_once(2), math.prod(default.blocks.values())):
        return None
    lengths = [(_length(blocks, own), _length(default.blocks, own)) for own in work.compared]
    if any(length < min(chip.compared_at_once(4), before) for length, before in lengths):
        return None
    return TilePlan(default.order, blocks, tuple(name for name in axes if name in loops), default.whole)


def _length(blocks: Mapping[str, int], along: Iterable[str]) -> int:
    return math.prod(blocks.get(axis, 1) for axis in along)

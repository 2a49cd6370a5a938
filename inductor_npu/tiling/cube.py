"""How a matrix product becomes tiles of the cube cores: rows, columns and a part of the sum at a time.

A tile's operands lie in L1, which loads the next step's while this one's are multiplied, if both fit; its accumulator
lies in L0C. The choice needs no timing and no compiler: of all blocks that fit, those with the least cycles of the
busiest core, as estimated here. Formulas: docs/cube.md, which says from where they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu import config
from inductor_npu.target import NpuTarget
from inductor_npu.tiling.tile_order import Side, TileOrder, tile_order

_ACCUMULATOR_BYTES = 4
_LONGEST_SIDE = 512
# Passes of a vector core over numbers of 32 bits that a conversion of int8 to a float takes at most.
_PASSES_OF_CONVERSION = 2
# Results of a conversion that the Unified Buffer has room for: that of int8 to bfloat16 passes through float32.
_VALUES_OF_CONVERSION = 3

# Estimates that differ by less count as equal: the bandwidth of L2 is an assumption.
ABOUT = 1.15


# Operands of products, by what a chip's `float_types` call them.
FLOATS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


def why_library(dtypes: Iterable[torch.dtype], chip: NpuTarget) -> str | None:
    """Returns why no kernel for `chip` multiplies matrices of these `dtypes`, or should not; None if one does."""
    if config.templates == "none":
        return "INDUCTOR_NPU_TEMPLATES=none"
    if not chip.cube_cores:
        return f"{chip.name} has no cube cores"
    different = sorted({*dtypes}, key=str)
    if len(different) > 1:
        return f"operands of {' and '.join(map(str, different))}"
    (dtype,) = different
    if dtype == torch.int8 or FLOATS.get(dtype) in chip.float_types:
        return None
    return f"the cube cores do not multiply {dtype}"


class NoTileError(Exception):
    """No tile of the cube cores covers the loops; the message says why."""


@dataclass(frozen=True)
class ProductSummary:
    """A product as the planner sees it: `rows` x `inner` times `inner` x `columns`, `batch` times. Dynamic lengths are
    Inductor's hints. The sum may have further loops, of `repeats` rounds in all, along which a tile has one index.

    `item_size` is that of the operands, in bytes; `result_bytes` what a kernel stores for each element of the result.
    `accumulators` is the number of products that are summed side by side, of `lefts` different left operands and
    `rights` different right ones: what they share is loaded once. `vector_bytes` is what the vector cores hold
    on chip for each element of the result, 0 if they have nothing to do; `vector_passes` how many instructions go over
    each, and `vector_loads` how many bytes they load for each. `converted`: bytes of an element of the right operand in
    memory, where the vector cores convert it for the cube core; else 0.
    """

    rows: int
    columns: int
    inner: int
    batch: int
    item_size: int
    result_bytes: int
    accumulators: int = 1
    lefts: int = 1
    rights: int = 1
    vector_bytes: int = 0
    vector_passes: int = 0
    vector_loads: int = 0
    repeats: int = 1
    converted: int = 0

    @property
    def is_mixed(self) -> bool:
        """Whether vector cores compute from the result."""
        return self.vector_bytes > 0

    @property
    def summed(self) -> int:
        """How many products are summed for an element of the result."""
        return self.inner * self.repeats


@dataclass(frozen=True)
class ProductTile:
    """Blocks, in elements, of rows, columns and the sum."""

    rows: int
    columns: int
    inner: int


def l0c_bytes(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> int:
    """Bytes of L0C that the accumulators of a tile take."""
    return work.accumulators * chip.accumulator_bytes(tile.rows, tile.columns)


def l1_bytes(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> int:
    """Bytes of L1 that the operands of one step take, in one buffer each."""
    left = work.lefts * chip.operand_bytes(tile.rows, tile.inner, work.item_size)
    return left + work.rights * chip.operand_bytes(tile.inner, tile.columns, work.item_size)


def vector_bytes(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> int:
    """Bytes of the Unified Buffer of each of the vector cores of a cube core: they share the rows of the tile that they
    finish, and those of a part of the right operand that they convert.
    """
    finished = -(-tile.rows // chip.vector_cores_per_cube) * tile.columns * work.vector_bytes
    if not work.converted:
        return finished
    part = tile.inner * tile.columns * work.rights * _VALUES_OF_CONVERSION * work.item_size
    return finished + part // chip.vector_cores_per_cube


def fits(work: ProductSummary, tile: ProductTile, chip: NpuTarget, share: float) -> bool:
    """Whether a tile fits, with two buffers in L1; its vector values may fill `share` of the Unified Buffer."""
    return (
        l0c_bytes(work, tile, chip) <= chip.l0c
        and 2 * l1_bytes(work, tile, chip) <= chip.l1
        and vector_bytes(work, tile, chip) <= chip.unified_buffer * share
    )


@dataclass(frozen=True)
class ProductCost:
    """Cycles of the busiest cube core and of each of its vector cores: `mte2` loads operands to L1, `mte1` to L0,
    `cube` multiplies, `fixpipe` stores accumulators; `vector` computes from them, and `transfers` loads and stores
    there. `fill`: the first load and what follows the last product. `bytes_moved` is in bytes, over all cores.
    """

    mte2: float
    mte1: float
    cube: float
    fixpipe: float
    vector: float
    transfers: float
    fill: float
    bytes_moved: float

    @property
    def cycles(self) -> float:
        """Cycles from the first load to the last store. While the vector cores finish a tile, their cube core has begun
        the next; it does not multiply while it stores its only accumulator.
        """
        return max(self.mte2, self.mte1, self.cube + self.fixpipe, self.vector, self.transfers) + self.fill


def cost(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> ProductCost:
    """Returns the estimated cost of the product with this tile."""
    tiles = -(-work.rows // tile.rows) * -(-work.columns // tile.columns) * work.batch
    waves = -(-tiles // chip.cube_cores)
    rows, columns = min(tile.rows, work.rows), min(tile.columns, work.columns)
    left, right = (side * work.summed * work.item_size for side in (rows * work.lefts, columns * work.rights))
    elements = rows * columns
    stored = elements * (work.accumulators * _ACCUMULATOR_BYTES if work.is_mixed else work.result_bytes)
    steps = work.repeats * -(-work.inner // tile.inner)
    rate = chip.vector_cores_per_cube * chip.device_bytes_per_cycle
    moved = tiles * (left + right)
    from_memory = min(order_of(work, tile, chip).bytes_read * work.batch / moved, 1.0)
    read = (left + right) * (from_memory + (1 - from_memory) / chip.l2_to_memory)
    conversion = 0.0
    if work.converted:  # it passes through a workspace, which stays in L2
        narrow = right / work.item_size * work.converted
        conversion = narrow + right / chip.l2_to_memory
        read = left + right / chip.l2_to_memory
        moved += tiles * int(narrow + right)
    mte2 = read / rate + 2 * steps * chip.transfer_cycles
    mte1 = left / chip.l1_to_l0a_bytes + right / chip.l1_to_l0b_bytes
    once = chip.product_cycles(rows, columns, 8 * work.inner * work.item_size)
    cube: float = work.accumulators * work.repeats * once
    if chip.parts_to_l0(tile.rows, tile.columns, tile.inner, 8 * work.item_size) < 2:
        cube += mte1  # what moves to L0 moves before it is multiplied
    finish = transferred = 0.0
    if work.is_mixed:
        shared = elements / chip.vector_cores_per_cube
        finish = work.vector_passes * (shared * _ACCUMULATOR_BYTES / chip.vector_bytes + chip.instruction_cycles)
        transferred = elements * (work.accumulators * _ACCUMULATOR_BYTES + work.vector_loads + work.result_bytes)
    fill = (mte2 + conversion / rate) / steps + stored / rate + finish + transferred / rate
    vector = finish + _PASSES_OF_CONVERSION * bool(work.converted) * right / work.item_size * _ACCUMULATOR_BYTES / (
        chip.vector_cores_per_cube * chip.vector_bytes
    )
    return ProductCost(
        mte2=waves * mte2,
        mte1=waves * mte1,
        cube=waves * cube,
        fixpipe=waves * stored / rate,
        vector=waves * vector,
        transfers=waves * (transferred + conversion) / rate,
        fill=fill,
        bytes_moved=moved + tiles * (stored + transferred),
    )


def order_of(work: ProductSummary, tile: ProductTile, chip: NpuTarget, is_turned: bool = False) -> TileOrder:
    """Returns in which order the tiles of a product, or of each of its batch, are computed. Rows are the first side,
    columns the second, or the other way round if it `is_turned`.
    """
    along_sum = work.summed * work.item_size
    rows, columns = min(tile.rows, work.rows), min(tile.columns, work.columns)
    sides = [
        Side(-(-work.rows // tile.rows), rows * work.lefts * along_sum),
        Side(-(-work.columns // tile.columns), columns * work.rights * along_sum),
    ]
    first, second = reversed(sides) if is_turned else sides
    return tile_order(first, second, rows * columns * work.result_bytes, chip.l2)


def _candidates(work: ProductSummary, chip: NpuTarget, share: float) -> Iterator[ProductTile]:
    """Every tile worth looking at: blocks are powers of two, no longer than they need to be, the sum's as long as L1
    allows.
    """

    def sides(length: int, shortest: int) -> list[int]:
        longest = min(_LONGEST_SIDE, max(shortest, next_power_of_2(length)))
        return [1 << bits for bits in range(shortest.bit_length() - 1, longest.bit_length())]

    side = chip.fractal_rows
    # A row that the vector cores convert is at least a burst, whichever way the operand lies.
    narrow = chip.burst_bytes // work.converted if work.converted else side
    shortest = max(narrow, chip.fractal_bytes // work.item_size)
    for rows, columns in itertools.product(sides(work.rows, side), sides(work.columns, narrow)):
        inner = max(shortest, next_power_of_2(work.inner))
        # What the vector cores convert is as long as a part of the sum; what they finish is not.
        limit = share if work.converted else math.inf
        while inner > shortest and not fits(work, ProductTile(rows, columns, inner), chip, limit):
            inner //= 2
        tile = ProductTile(rows, columns, inner)
        if fits(work, tile, chip, share):
            yield tile


def candidates(work: ProductSummary, chip: NpuTarget, share: float) -> list[ProductTile]:
    """Returns all tiles that fit `chip`, the best one first: of those with about the least estimated cycles the one
    that moves the fewest bytes. The others are in the order of their cycles. Values of the vector cores may fill
    `share` (0 to 1) of the Unified Buffer.

    Raises NoTileError if there is none.
    """
    costs = {tile: cost(work, tile, chip) for tile in _candidates(work, chip, share)}
    if not costs:
        raise NoTileError(f"what follows the product takes {work.vector_bytes} bytes for each of its elements")
    found = sorted(costs, key=lambda tile: (costs[tile].cycles, -tile.inner, -tile.columns))
    about = (tile for tile in found if costs[tile].cycles <= ABOUT * costs[found[0]].cycles)
    best = min(about, key=lambda tile: costs[tile].bytes_moved)
    return [best, *(tile for tile in found if tile != best)]


def plan_product(work: ProductSummary, chip: NpuTarget, share: float) -> ProductTile:
    """Returns the first of `candidates`."""
    return candidates(work, chip, share)[0]

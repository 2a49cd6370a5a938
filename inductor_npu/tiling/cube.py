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

from inductor_npu.target import NpuTarget

# The side of the smallest square that the matrix unit multiplies; blocks on chip are padded to it.
_SIDE = 16
_ACCUMULATOR_BYTES = 4
_LONGEST_SIDE = 512


# Operands of products, by what a chip's `float_types` call them.
_FLOATS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


def why_library(dtypes: Iterable[torch.dtype], chip: NpuTarget) -> str | None:
    """Returns why no kernel for `chip` multiplies matrices of these `dtypes`; None if one does."""
    if not chip.cube_cores:
        return f"{chip.name} has no cube cores"
    different = sorted({*dtypes}, key=str)
    if len(different) > 1:
        return f"operands of {' and '.join(map(str, different))}"
    (dtype,) = different
    if dtype == torch.int8 or _FLOATS.get(dtype) in chip.float_types:
        return None
    return f"the cube cores do not multiply {dtype}"


class NoTileError(Exception):
    """No tile of the cube cores covers the loops; the message says why."""


@dataclass(frozen=True)
class ProductSummary:
    """A product as the planner sees it: `rows` x `inner` times `inner` x `columns`, `batch` times. Dynamic lengths are
    Inductor's hints.

    `item_size` is that of the operands, in bytes; `result_bytes` what a kernel stores for each element of the result.
    `accumulators` is the number of products that are summed side by side. `vector_bytes` is what the vector cores hold
    on chip for each element of the result, 0 if they have nothing to do; `vector_passes` how many instructions go over
    each, and `vector_loads` how many bytes they load for each.
    """

    rows: int
    columns: int
    inner: int
    batch: int
    item_size: int
    result_bytes: int
    accumulators: int = 1
    vector_bytes: int = 0
    vector_passes: int = 0
    vector_loads: int = 0

    @property
    def is_mixed(self) -> bool:
        """Whether vector cores take part."""
        return self.vector_bytes > 0


@dataclass(frozen=True)
class ProductTile:
    """Blocks, in elements, of rows, columns and the sum."""

    rows: int
    columns: int
    inner: int


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def l0c_bytes(work: ProductSummary, tile: ProductTile) -> int:
    """Bytes of L0C that the accumulators of a tile take."""
    return work.accumulators * _up(tile.rows, _SIDE) * _up(tile.columns, _SIDE) * _ACCUMULATOR_BYTES


def l1_bytes(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> int:
    """Bytes of L1 that the operands of one step take, in one buffer each."""
    items = chip.burst_bytes // work.item_size
    left = _up(tile.rows, _SIDE) * _up(tile.inner, items)
    right = _up(tile.inner, _SIDE) * _up(tile.columns, items) * work.accumulators
    return (left + right) * work.item_size


def vector_bytes(work: ProductSummary, tile: ProductTile) -> int:
    """Bytes of the Unified Buffer of each of the two vector cores that finish a tile: each takes half of its rows."""
    return -(-tile.rows // 2) * tile.columns * work.vector_bytes


def parts(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> int:
    """In how many parts one step moves from L1 to L0: while one is multiplied, the next moves."""
    in_l0 = chip.l0a // 2 // (max(tile.rows, tile.columns) * work.item_size) // _SIDE * _SIDE
    return -(-tile.inner // max(in_l0, _SIDE))


def fits(work: ProductSummary, tile: ProductTile, chip: NpuTarget, share: float) -> bool:
    """Whether a tile fits the chip, with two buffers in L1; its vector values may fill `share` of the Unified Buffer."""
    return (
        l0c_bytes(work, tile) <= chip.l0c
        and 2 * l1_bytes(work, tile, chip) <= chip.l1
        and vector_bytes(work, tile) <= chip.unified_buffer * share
    )


@dataclass(frozen=True)
class ProductCost:
    """Cycles of the busiest cube core and of each of its vector cores: `mte2` loads operands, `cube` multiplies,
    `fixpipe` stores accumulators; `vector` computes from them, and `transfers` loads and stores there. `fill`: the
    first load and what follows the last product. `bytes_moved` is in bytes, over all cores.
    """

    mte2: float
    cube: float
    fixpipe: float
    vector: float
    transfers: float
    fill: float
    bytes_moved: float

    @property
    def cycles(self) -> float:
        """Cycles from the first load to the last store. While the vector cores finish a tile, their cube core has begun
        the next.
        """
        return max(self.mte2, self.cube + self.fixpipe, self.vector, self.transfers) + self.fill


def cost(work: ProductSummary, tile: ProductTile, chip: NpuTarget) -> ProductCost:
    """Returns the estimated cost of the product with this tile. The accumulator is not doubled: its core does not
    multiply while it is stored.
    """
    tiles = -(-work.rows // tile.rows) * -(-work.columns // tile.columns) * work.batch
    waves = -(-tiles // chip.cube_cores)
    rows, columns = min(tile.rows, work.rows), min(tile.columns, work.columns)
    rate = 2 * chip.device_bytes_per_cycle  # of a cube core: there are half as many
    moved = (rows + columns * work.accumulators) * work.inner * work.item_size
    inner = _up(work.inner, chip.burst_bytes // work.item_size)
    squares = _up(rows, _SIDE) // _SIDE * (_up(columns, _SIDE) // _SIDE)
    cube = work.accumulators * squares * inner * work.item_size / chip.burst_bytes
    if parts(work, tile, chip) < 2:
        cube *= 2  # what moves to L0 moves before it is multiplied
    elements = rows * columns
    stored = elements * (work.accumulators * _ACCUMULATOR_BYTES if work.is_mixed else work.result_bytes)
    steps = -(-work.inner // tile.inner)
    mte2 = moved / rate + 2 * steps * chip.transfer_cycles
    vector = transferred = 0.0
    if work.is_mixed:
        vector = work.vector_passes * (elements / 2 * 4 / chip.vector_bytes + chip.instruction_cycles)
        transferred = elements * (work.accumulators * _ACCUMULATOR_BYTES + work.vector_loads + work.result_bytes)
    fill = mte2 / steps + stored / rate + vector + transferred / rate
    return ProductCost(
        mte2=waves * mte2,
        cube=waves * cube,
        fixpipe=waves * stored / rate,
        vector=waves * vector,
        transfers=waves * transferred / rate,
        fill=fill,
        bytes_moved=tiles * (moved + stored + transferred),
    )


def _candidates(work: ProductSummary, chip: NpuTarget, share: float) -> Iterator[ProductTile]:
    """Every tile worth looking at: blocks are powers of two, no longer than they need to be, the sum's as long as L1
    allows.
    """

    def sides(length: int) -> list[int]:
        longest = min(_LONGEST_SIDE, max(_SIDE, next_power_of_2(length)))
        return [1 << bits for bits in range(_SIDE.bit_length() - 1, longest.bit_length())]

    shortest = max(_SIDE, chip.burst_bytes // work.item_size)
    for rows, columns in itertools.product(sides(work.rows), sides(work.columns)):
        inner = max(shortest, next_power_of_2(work.inner))
        while inner > shortest and not fits(work, ProductTile(rows, columns, inner), chip, math.inf):
            inner //= 2
        tile = ProductTile(rows, columns, inner)
        if fits(work, tile, chip, share):
            yield tile


def candidates(work: ProductSummary, chip: NpuTarget, share: float) -> list[ProductTile]:
    """Returns all tiles that fit `chip`, the one with the least estimated cycles first. Values of the vector cores may
    fill `share` (0 to 1) of the Unified Buffer.

    Raises NoTileError if there is none.
    """
    found = sorted(
        _candidates(work, chip, share),
        key=lambda tile: (cost(work, tile, chip).cycles, -tile.inner, -tile.columns, -tile.rows),
    )
    if not found:
        raise NoTileError(f"what is computed from the product takes {work.vector_bytes} bytes for each of its elements")
    return found


def plan_product(work: ProductSummary, chip: NpuTarget, share: float) -> ProductTile:
    """Returns the first of `candidates`, with blocks no longer than the product is."""
    return candidates(work, chip, share)[0]

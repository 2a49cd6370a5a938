"""The tile of a kernel of attention: how many queries and how many keys at a time.

The scores of a tile leave the cube core for its two vector cores, each of which takes half of the queries, and come
back as weights. Keys and values lie in L1 twice, so that the next block loads while this one is multiplied. Formulas:
docs/attention.md, which says from where they are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.target import NpuTarget
from inductor_npu.tiling.cube import NoTileError

_SHORTEST = 16
MOST_ROWS = 128
_MOST_COLUMNS = 512
_ACCUMULATOR_BYTES = 4


class Pass(enum.Enum):
    """Which of the three kernels of attention."""

    FORWARD = "forward"
    KEYS_AND_VALUES = "gradients of keys and values"
    QUERIES = "gradients of queries"


@dataclass(frozen=True)
class AttentionSummary:
    """A kernel of attention as the planner sees it; dynamic lengths are Inductor's hints. `head` and `value_head` are
    the dimensions of a head, as powers of two; `heads` counts all heads of all batches over whose blocks programs go.
    `score_bytes` is what a vector core holds for each score. Blocks are no longer than `longest_rows` and
    `longest_columns`.
    """

    which: Pass
    rows: int
    columns: int
    heads: int
    head: int
    value_head: int
    item_size: int
    score_bytes: float
    longest_rows: int = MOST_ROWS
    longest_columns: int = _MOST_COLUMNS


@dataclass(frozen=True)
class AttentionTile:
    """Queries and keys of a tile, both powers of two."""

    rows: int
    columns: int


def l0c_bytes(work: AttentionSummary, tile: AttentionTile) -> int:
    """Bytes of L0C that the accumulators of a tile take."""
    scores = tile.rows * tile.columns
    match work.which:
        case Pass.FORWARD:
            elements = max(scores, tile.rows * work.value_head)
        case Pass.KEYS_AND_VALUES:
            elements = scores + tile.columns * (work.head + work.value_head)
        case Pass.QUERIES:
            elements = scores + 2 * tile.rows * work.head
    return elements * _ACCUMULATOR_BYTES


def l1_bytes(work: AttentionSummary, tile: AttentionTile) -> int:
    """Bytes of L1 that a tile takes, with two buffers for all that is loaded in its loop."""
    scores = tile.rows * tile.columns
    both = work.head + work.value_head
    match work.which:
        case Pass.FORWARD:
            items = 2 * tile.rows * work.head + 2 * tile.columns * both + 2 * scores
        case Pass.KEYS_AND_VALUES:
            items = 10 * max(tile.rows, tile.columns) * both + 4 * scores
        case Pass.QUERIES:
            items = 7 * max(tile.rows, tile.columns) * both + 2 * scores
    return items * work.item_size


def vector_bytes(work: AttentionSummary, tile: AttentionTile) -> int:
    """Bytes of the Unified Buffer of each of the two vector cores of a tile."""
    results = 14 * work.value_head if work.which is Pass.FORWARD else 0
    return int(tile.rows / 2 * (tile.columns * work.score_bytes + results))


def _fits(work: AttentionSummary, tile: AttentionTile, chip: NpuTarget) -> bool:
    return l0c_bytes(work, tile) <= chip.l0c and l1_bytes(work, tile) <= chip.l1


def _cost(work: AttentionSummary, tile: AttentionTile, chip: NpuTarget) -> float:
    """Bytes that pass between memory and the busiest core: operands, and scores between cube and vector cores."""
    outer, inner = (work.rows, work.columns), (tile.rows, tile.columns)
    is_by_column = work.which is Pass.KEYS_AND_VALUES
    tiles = work.heads * -(-outer[is_by_column] // inner[is_by_column])
    steps = -(-outer[not is_by_column] // inner[not is_by_column])
    scores = tile.rows * tile.columns
    moved = inner[not is_by_column] * (work.head + work.value_head) * work.item_size
    step = moved + scores * (8 + 2 * work.item_size)
    if work.which is Pass.FORWARD:
        step += 8 * tile.rows * work.value_head
    waves = -(-tiles // chip.cube_cores)
    return waves * steps * (step + 2 * chip.transfer_cycles * 2 * chip.device_bytes_per_cycle)


def _candidates(work: AttentionSummary) -> Iterator[AttentionTile]:
    def blocks(length: int, longest: int) -> list[int]:
        most = _SHORTEST
        while most < min(length, longest):
            most *= 2
        most = min(most, longest)
        return [1 << bits for bits in range(_SHORTEST.bit_length() - 1, most.bit_length())] or [longest]

    is_square = work.which is not Pass.FORWARD
    columns = min(work.longest_columns, MOST_ROWS if is_square else _MOST_COLUMNS)
    for rows in blocks(work.rows, min(work.longest_rows, MOST_ROWS)):
        for keys in blocks(work.columns, columns):
            yield AttentionTile(rows, keys)


def plan_attention(work: AttentionSummary, chip: NpuTarget, share: float) -> AttentionTile:
    """Returns the tile of `work` on `chip` with the least estimated cost, whose vector values fill at most `share` (0
    to 1) of the Unified Buffer; the smallest one where each fills more.

    Raises NoTileError if none fits the cube cores.
    """
    fitting = [tile for tile in _candidates(work) if _fits(work, tile, chip)]
    if not fitting:
        raise NoTileError(f"no block of attention with heads of {work.head} and {work.value_head} fits the chip")
    small = [tile for tile in fitting if vector_bytes(work, tile) <= chip.unified_buffer * share]
    if not small:
        return min(fitting, key=lambda tile: vector_bytes(work, tile))
    return min(small, key=lambda tile: (_cost(work, tile, chip), -tile.columns, -tile.rows))

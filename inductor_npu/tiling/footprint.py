"""How many bytes of the Unified Buffer a tile takes, estimated before the kernel is compiled.

The compiler knows the exact number and refuses a kernel that does not fit (the autotuner then halves its blocks): an
estimate saves that detour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu.tiling import limits

# Bytes per element of a pointer's type in Triton's spelling. What is narrower than 4 bytes is computed in 4.
_ITEM_SIZE = {"fp64": 8, "i64": 8, "u64": 8}
_COMPUTE_SIZE = 4

# Values alive beside the loads and stores: intermediate results and masks.
_TEMPORARIES = 2


def bytes_per_element(triton_meta: dict[str, Any], inductor_meta: dict[str, Any]) -> int:
    """Estimated bytes that one element of the tile keeps alive: every load, every store and a few temporaries at
    once.
    """
    pointers = [kind[1:] for kind in triton_meta["signature"].values() if kind.startswith("*")]
    widest = max((_ITEM_SIZE.get(kind, _COMPUTE_SIZE) for kind in pointers), default=_COMPUTE_SIZE)
    values = inductor_meta.get("num_load", 0) + inductor_meta.get("num_store", 0) + _TEMPORARIES
    return widest * values


def row_fits(row: int, item_sizes: Iterable[int], unified_buffer: int) -> bool:
    """Whether one row of `row` elements of each tensor, with items of these bytes, is estimated to fit at once."""
    tensors = sum(max(size, _COMPUTE_SIZE) for size in item_sizes)
    return next_power_of_2(row) * (tensors + _TEMPORARIES * _COMPUTE_SIZE) <= unified_buffer


def fitting_tile(tile: int, triton_meta: dict[str, Any], inductor_meta: dict[str, Any]) -> int:
    """`tile`, halved until it is estimated to fit the Unified Buffer; a power of two."""
    per_element = bytes_per_element(triton_meta, inductor_meta)
    tile = next_power_of_2(tile)
    while tile > limits.SMALLEST_TILE and tile * per_element > inductor_meta["npu_unified_buffer"]:
        tile //= 2
    return tile

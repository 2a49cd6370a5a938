"""Block sizes for generated kernels. Generated source imports this module under the name `triton_heuristics`.

Each function here is a decorator with the signature of Inductor's function of the same name. Where Inductor offers
several candidates and times them at the first call, these choose one; with max-autotune they offer a few.
`size_hints` maps an axis ("x", "y", "z", "r0_", "r1_") to its length, rounded up to a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.runtime import triton_heuristics as stock
from torch._inductor.runtime.hints import HeuristicType, ReductionHint, TileHint
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.runtime.triton_compat import Config

from inductor_npu.tiling import footprint, limits
from inductor_npu.tiling.autotuner import NpuAutotuner, NpuDebugAutotuner

Meta = dict[str, Any]
Blocks = dict[str, int]
Decorator = Callable[[Any], Any]

# A transposing tile reads along one axis and writes along the other: square, so that both see whole bursts.
SQUARE_SIDE = 64

# Rows per program of a reduction over rows that lie side by side in memory: one burst wide.
OUTER_ROWS = 128


def _autotuned(
    size_hints: Any, blocks: list[Blocks], kind: HeuristicType, triton_meta: Meta, inductor_meta: Meta, filename: Any
) -> Decorator:
    return stock.cached_autotune(
        size_hints,
        [Config(kwargs, num_warps=1, num_stages=1) for kwargs in blocks],
        triton_meta=triton_meta,
        inductor_meta=inductor_meta,
        heuristic_type=kind,
        filename=filename,
        caching_autotuner_cls=NpuAutotuner,
        debug_autotuner_cls=NpuDebugAutotuner,
    )


def _planned(kind: HeuristicType, triton_meta: Meta, inductor_meta: Meta, filename: Any) -> Decorator:
    """The blocks that the code generator chose, which its metadata hold.

    No others may be tried at run time: the kernel has no masks where these blocks need none.
    """
    meta = {**inductor_meta, "coordinate_descent_tuning": False}
    return _autotuned(None, [dict(inductor_meta["npu_blocks"])], kind, triton_meta, meta, filename)


def _tiles(triton_meta: Meta, inductor_meta: Meta, *divisors: int) -> list[int]:
    """The tile that fits the Unified Buffer; with max-autotune a candidate for each of `divisors`, largest first."""
    tile = footprint.fitting_tile(inductor_meta["npu_tile"], triton_meta, inductor_meta)
    wants_candidates = inductor_meta.get("max_autotune") or inductor_meta.get("max_autotune_pointwise")
    return [tile // divisor for divisor in divisors] if wants_candidates else [tile]


def pointwise(
    size_hints: dict[str, int],
    triton_meta: Meta,
    tile_hint: TileHint | None = None,
    filename: str | None = None,
    min_elem_per_thread: int = 0,
    inductor_meta: Meta | None = None,
    return_configs: bool = False,
) -> Decorator:
    """Blocks of a loop without reductions: `tile` elements, the contiguous axis x first."""
    assert inductor_meta is not None, "the code generator always gives inductor_meta"
    if "npu_blocks" in inductor_meta:
        return _planned(HeuristicType.POINTWISE, triton_meta, inductor_meta, filename)
    blocks = [
        _pointwise_blocks(size_hints, size, inductor_meta) for size in _tiles(triton_meta, inductor_meta, 1, 2, 4)
    ]
    return _autotuned(size_hints, blocks, HeuristicType.POINTWISE, triton_meta, inductor_meta, filename)


def _pointwise_blocks(size_hints: dict[str, int], tile: int, meta: Meta) -> Blocks:
    lengths = list(size_hints.values())
    total = 1
    for length in lengths:
        total *= length
    # Every core gets a program before any program gets a larger tile, down to a size where starting it costs more
    # than running it.
    tile = min(tile, max(limits.SMALLEST_TILE, total // next_power_of_2(meta["npu_cores"])))
    if len(size_hints) == 1:
        x = min(tile, size_hints["x"], meta["npu_max_x_block"])
        return {"XBLOCK": _grow_to_grid(x, size_hints["x"], 1, meta)}
    blocks: Blocks = {}
    x = min(size_hints["x"], SQUARE_SIDE if size_hints["y"] > 1 else tile, meta["npu_max_x_block"])
    y = min(size_hints["y"], max(1, tile // x), stock.TRITON_MAX_BLOCK["Y"])
    x = min(size_hints["x"], max(x, tile // y), meta["npu_max_x_block"])
    if "z" in size_hints:
        blocks["ZBLOCK"] = min(size_hints["z"], max(1, tile // (x * y)), stock.TRITON_MAX_BLOCK["Z"])
    others = -(-size_hints["y"] // y) * (-(-size_hints["z"] // blocks["ZBLOCK"]) if "z" in size_hints else 1)
    return {"XBLOCK": _grow_to_grid(x, size_hints["x"], others, meta), "YBLOCK": y, **blocks}


def _grow_to_grid(x: int, x_length: int, other_programs: int, meta: Meta) -> int:
    """Doubles the x block until the number of programs is within the target's grid limit, or the block is as large as
    it may be.
    """
    while x < min(x_length, meta["npu_max_x_block"]) and -(-x_length // x) * other_programs > meta["npu_max_grid"] // 2:
        x *= 2
    return x


def reduction(
    size_hints: dict[str, int],
    reduction_hint: ReductionHint | bool = False,
    triton_meta: Meta | None = None,
    filename: str | None = None,
    inductor_meta: Meta | None = None,
    return_configs: bool = False,
) -> Decorator:
    """Blocks of a reduction that reads its row in a loop."""
    assert triton_meta is not None and inductor_meta is not None, "the code generator always gives both"
    if "npu_blocks" in inductor_meta:
        return _planned(HeuristicType.REDUCTION, triton_meta, inductor_meta, filename)
    blocks = [
        _looped_blocks(size_hints, size, reduction_hint, inductor_meta)
        for size in _tiles(triton_meta, inductor_meta, 1, 2, 4)
    ]
    return _autotuned(size_hints, blocks, HeuristicType.REDUCTION, triton_meta, inductor_meta, filename)


def _looped_blocks(size_hints: dict[str, int], tile: int, hint: Any, meta: Meta) -> Blocks:
    side_by_side = hint in (ReductionHint.OUTER, ReductionHint.OUTER_TINY)
    least = min(size_hints["x"], OUTER_ROWS if side_by_side else 1, meta["npu_max_x_block"])
    blocks: Blocks = {}
    row = 1
    # The innermost reduction axis is the contiguous one: it gets its length first.
    for prefix in sorted((name for name in size_hints if name.startswith("r")), reverse=True):
        block = min(size_hints[prefix], max(1, tile // (least * row)), stock.TRITON_MAX_BLOCK[prefix.upper()])
        blocks[f"{prefix.upper()}BLOCK"] = block
        row *= block
    # Short rows leave room for more of them.
    rows = min(size_hints["x"], least * max(1, tile // (least * row)), meta["npu_max_x_block"])
    return {**_row_blocks(size_hints, rows, tile // row, meta), **blocks}


def persistent_reduction(
    size_hints: dict[str, int],
    reduction_hint: ReductionHint | bool = False,
    triton_meta: Meta | None = None,
    filename: str | None = None,
    inductor_meta: Meta | None = None,
    return_configs: bool = False,
) -> Decorator:
    """Rows per program of a reduction whose whole row is on chip; the row's block is fixed in the kernel's source."""
    assert triton_meta is not None and inductor_meta is not None, "the code generator always gives both"
    if "npu_blocks" in inductor_meta:
        return _planned(HeuristicType.PERSISTENT_REDUCTION, triton_meta, inductor_meta, filename)
    blocks = [_persistent_blocks(size_hints, size, inductor_meta) for size in _tiles(triton_meta, inductor_meta, 1, 4)]
    return _autotuned(size_hints, blocks, HeuristicType.PERSISTENT_REDUCTION, triton_meta, inductor_meta, filename)


def _persistent_blocks(size_hints: dict[str, int], tile: int, meta: Meta) -> Blocks:
    rows, row = size_hints["x"], 1
    for prefix, length in size_hints.items():
        row *= length if prefix.startswith("r") else 1
    x = max(1, min(rows, tile // row, rows // next_power_of_2(meta["npu_cores"]), meta["npu_max_x_block"]))
    return _row_blocks(size_hints, x, tile // row, meta)


def _row_blocks(size_hints: dict[str, int], x: int, room: int, meta: Meta) -> Blocks:
    """Blocks of the axes that a reduction keeps: `x` rows along x and, where its rows have a second axis, as many along
    y as `room` for rows is left.
    """
    if "y" not in size_hints:
        return {"XBLOCK": _grow_to_grid(x, size_hints["x"], 1, meta)}
    y = min(size_hints["y"], max(1, room // x), stock.TRITON_MAX_BLOCK["Y"])
    return {"XBLOCK": _grow_to_grid(x, size_hints["x"], -(-size_hints["y"] // y), meta), "YBLOCK": y}


def user_autotune(
    configs: list[Any],
    triton_meta: Meta,
    filename: str | None = None,
    inductor_meta: Meta | None = None,
    custom_kernel: bool = False,
) -> Decorator:
    """A kernel that the user wrote: the user's own configurations, tried in turn where there are several."""
    return stock.cached_autotune(
        None,
        [stock.config_from_dict(config) for config in configs] or [Config({})],
        triton_meta=triton_meta,
        heuristic_type=HeuristicType.USER_AUTOTUNE,
        filename=filename,
        inductor_meta=inductor_meta,
        custom_kernel=custom_kernel,
        caching_autotuner_cls=NpuAutotuner,
        debug_autotuner_cls=NpuDebugAutotuner,
    )


def fixed_config(config: Meta, filename: str | None, triton_meta: Meta, inductor_meta: Meta) -> Decorator:
    """A kernel whose blocks the code generator has fixed."""
    return _autotuned(None, [dict(config)], HeuristicType.FIXED, triton_meta, inductor_meta, filename)

"""The grid of a launch: one dimension, as many programs as there are tiles, at most as many as there are cores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._inductor.runtime import triton_heuristics as stock

# The smaller of two numbers, in an expression that sees nothing but its arguments. Symbolic ones cannot be compared.
_SMALLER, _SMALLER_SYMBOLIC = "min", "__import__('sympy').Min"


class NpuGrid(stock.GridExpr):
    """min(cores, tiles). `inductor_meta["npu_tiled"]` has for each loop over tiles its axes: what says the length, and
    the block, or None where a tile has one index. A block is a number or the name of one.
    """

    smaller = _SMALLER

    def generate(self, meta: dict[str, int], is_lazy: bool = False) -> None:
        parts = [
            [self.ceildiv(length, meta.get(block, block)) for length, block in part]
            for part in self.inductor_meta["npu_tiled"]
        ]
        cores = self.inductor_meta["npu_cores"]
        known = sum(math.prod(part) for part in parts if not any(isinstance(count, str) for count in part))
        unknown = [" * ".join(map(str, part)) for part in parts if any(isinstance(count, str) for count in part)]
        smallest = self.smaller if self.mode == "python" else "std::min<long>"
        tiles = " + ".join([*unknown, *([str(known)] if known else [])])
        self.x_grid = f"{smallest}({cores}, {tiles})" if unknown else min(cores, known)


@contextmanager
def written_out(holder: Any, config: Any, symbolic: bool = False) -> Iterator[None]:
    """Inside, `holder.inductor_meta` has the grid that `config` (a Config of Triton) makes of it, as expressions.
    `symbolic`: of expressions of sympy, not of numbers.

    Inductor looks the class of a grid up by its name, among its own; one of those takes expressions.
    """
    meta = holder.inductor_meta
    if meta.get("grid_type") != NpuGrid.__name__:  # a kernel that a user wrote
        yield
        return
    grid = NpuGrid(inductor_meta=meta)
    grid.smaller = _SMALLER_SYMBOLIC if symbolic else _SMALLER
    grid.generate(stock.config_to_dict(config))
    expressions = {"config": {}, grid.mode: (grid.x_grid, grid.y_grid, grid.z_grid)}
    holder.inductor_meta = {
        **meta,
        "grid_type": stock.PrecomputedGrid.__name__,
        "precomputed_grids": [expressions],
    }
    try:
        yield
    finally:
        holder.inductor_meta = meta

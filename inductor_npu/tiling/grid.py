"""The grid of a launch: one dimension, as many programs as there are tiles, at most as many as there are cores."""

from __future__ import annotations

import math

from torch._inductor.runtime import triton_heuristics as stock


class NpuGrid(stock.GridExpr):
    """min(cores, tiles). `inductor_meta["npu_tiled"]` has for each loop over tiles its axes: what says the length, and
    the block, or None where a tile has one index. A block is a number or the name of one.
    """

    def generate(self, meta: dict[str, int], is_lazy: bool = False) -> None:
        parts = [
            [self.ceildiv(length, meta.get(block, block)) for length, block in part]
            for part in self.inductor_meta["npu_tiled"]
        ]
        cores = self.inductor_meta["npu_cores"]
        known = sum(math.prod(part) for part in parts if not any(isinstance(count, str) for count in part))
        unknown = [" * ".join(map(str, part)) for part in parts if any(isinstance(count, str) for count in part)]
        smallest = "min" if self.mode == "python" else "std::min<long>"
        tiles = " + ".join([*unknown, *([str(known)] if known else [])])
        self.x_grid = f"{smallest}({cores}, {tiles})" if unknown else min(cores, known)

"""The grid of a launch: one dimension, as many programs as there are tiles, at most as many as there are cores."""

from __future__ import annotations

from torch._inductor.runtime import triton_heuristics as stock


class NpuGrid(stock.GridExpr):
    """min(cores, tiles). `inductor_meta["npu_tiled"]` has for each loop over tiles its axes: what says the length, and
    the block, or None where a tile has one index. A block is a number or the name of one.
    """

    def generate(self, meta: dict[str, int], is_lazy: bool = False) -> None:
        tiles = [
            " * ".join(str(self.ceildiv(numel, meta.get(block, block))) for numel, block in loop)
            for loop in self.inductor_meta["npu_tiled"]
        ]
        cores = self.inductor_meta["npu_cores"]
        smallest = "min" if self.mode == "python" else "std::min<long>"
        self.x_grid = f"{smallest}({cores}, {' + '.join(tiles)})" if all(tiles) else 1

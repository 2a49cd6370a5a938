"""The grid of a launch: one dimension, as many programs as there are tiles, at most as many as there are cores."""

from __future__ import annotations

from torch._inductor.runtime import triton_heuristics as stock


class NpuGrid(stock.GridExpr):
    """min(cores, tiles). `inductor_meta["npu_tiled"]` lists the axes: the argument with its length, and the name of its
    block or None where a tile has one index.
    """

    def generate(self, meta: dict[str, int], is_lazy: bool = False) -> None:
        counts = [
            self.ceildiv(numel, meta[block] if block is not None else None)
            for numel, block in self.inductor_meta["npu_tiled"]
        ]
        cores = self.inductor_meta["npu_cores"]
        smallest = "min" if self.mode == "python" else "std::min<long>"
        self.x_grid = f"{smallest}({cores}, {' * '.join(map(str, counts))})" if counts else 1

"""The axes of a kernel in its tile: dimensions, whole axes, looped axes and scalar-loop axes."""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.tiling.plan import TilePlan

# Prefixes of axes, in the order of a tile's dimensions.
AxisNames = tuple[str, ...]


class TiledAxes:
    """`axes`, and the `tile` that is made of them. Methods take axes by their prefixes."""

    def __init__(self, axes: Axes, tile: TilePlan) -> None:
        self.axes = axes
        self.tile = tile
        self.axis_of: dict[str, Axis] = {axis.prefix: axis for axis in axes.all}
        self.axis_with: dict[sympy.Symbol, Axis] = {axis.symbol: axis for axis in axes.all}
        # The lengths of the tile's dimensions, by symbol.
        self.lengths: dict[sympy.Symbol, sympy.Expr] = {
            self.axis_of[axis].symbol: self.axis_of[axis].length for axis in tile.order
        }

    def is_whole(self, prefix: str) -> bool:
        """Whether every tile contains the axis from end to end."""
        if prefix in self.tile.whole:
            return True
        return self.axis_of[prefix].is_reduction and prefix in self.tile.blocks and prefix not in self.tile.loops

    def needs_mask(self, prefix: str) -> bool:
        """Whether some tile extends beyond the end of the axis."""
        return not V.graph.sizevars.statically_known_multiple_of(
            self.axis_of[prefix].length, sympy.Integer(self.tile.blocks[prefix])
        )

    def block(self, prefix: str) -> int:
        """Indices of the axis in one tile."""
        return self.tile.blocks.get(prefix, 1)

    def in_order(self, axes: Any) -> AxisNames:
        """Those of `axes` that are dimensions of the tile, in its order."""
        return tuple(axis for axis in self.tile.order if axis in axes)

    def axes_in(self, index: sympy.Expr) -> AxisNames:
        """The dimensions of the tile on which `index`, in the axes' symbols, depends."""
        return tuple(axis for axis in self.tile.order if self.axis_of[axis].symbol in index.free_symbols)

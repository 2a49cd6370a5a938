"""The axes of a kernel in its tile: which are dimensions, whole, looped over or taken one index at a time."""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.tiling.plan import TilePlan

# Prefixes of axes, in the order of a tile's dimensions.
AxisNames = tuple[str, ...]


class TiledAxes:
    """`axes` and the `tile` that is made of them. Axes are named by their prefixes."""

    def __init__(self, axes: Axes, tile: TilePlan) -> None:
        self.axes = axes
        self.tile = tile
        self.axis_of: dict[str, Axis] = {axis.prefix: axis for axis in axes.all}
        self.axis_with: dict[sympy.Symbol, Axis] = {axis.symbol: axis for axis in axes.all}
        # The symbols of the tile's dimensions, with how many indices each stands for.
        self.lengths: dict[sympy.Symbol, sympy.Expr] = {
            self.axis_of[axis].symbol: self.axis_of[axis].length for axis in tile.order
        }

    def is_whole(self, prefix: str) -> bool:
        """Whether an axis is in every tile from its first to its last element."""
        if prefix in self.tile.whole:
            return True
        return self.axis_of[prefix].is_reduction and prefix in self.tile.blocks and prefix not in self.tile.loops

    def needs_mask(self, prefix: str) -> bool:
        """Whether some tile reaches beyond the end of the axis."""
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
        """The dimensions of the tile on which `index` depends."""
        return tuple(axis for axis in self.tile.order if self.axis_of[axis].symbol in index.free_symbols)

    def stays_inside(self, index: sympy.Expr, size: sympy.Expr, bounds: Bounds | None) -> bool:
        """Whether `index`, in elements, is inside a buffer of `size` elements wherever an axis is, within `bounds`."""
        taken = affine(index, self.axis_with)
        if taken.nonlinear or not isinstance(taken.offset, sympy.Integer):
            return False
        lowest = highest = int(taken.offset)
        for symbol, stride in taken.strides.items():
            first, last = sympy.S.Zero, self.axis_with[symbol].length - 1
            if bounds is not None:
                first, last = bounds.low.get(symbol, first), bounds.high.get(symbol, last + 1) - 1
            if not all(isinstance(number, sympy.Integer) for number in (stride, first, last)):
                return False
            ends = int(stride) * int(first), int(stride) * int(last)
            lowest, highest = lowest + min(ends), highest + max(ends)
        return lowest >= 0 and V.graph.sizevars.statically_known_lt(sympy.Integer(highest), size)

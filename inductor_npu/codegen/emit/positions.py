"""Positions of elements in a tile: tables that do not depend on the tile, and predicates on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable

from inductor_npu.codegen.analysis.strided_ranges import fills_bursts
from inductor_npu.codegen.emit.statements import Statements
from inductor_npu.codegen.emit.tile_kernel import TileKernel, subscript
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.providers import current_target


class Positions:
    """Positions of elements in a tile of `kernel`, as vectors that are hoisted out of the loop over tiles."""

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        self.before_tiles = Statements()
        self.blocks_with_offsets: set[str] = set()
        self._hoisted: dict[str, str] = {}

    def share_tables(self, other: Positions) -> None:
        """Puts tables where those of `other` are, whose kernel has the same tiles in the same loop."""
        self.before_tiles, self._hoisted = other.before_tiles, other._hoisted
        self.blocks_with_offsets = other.blocks_with_offsets

    def hoisted(self, prefix: str, text: str) -> str:
        """A name for `text`, which does not depend on the tile."""
        if text not in self._hoisted:
            name = f"{prefix}{sum(other.startswith(prefix) for other in self._hoisted.values())}"
            self._hoisted[text] = name
            self.before_tiles.writeline(f"{name} = {text}")
        return self._hoisted[text]

    def spread(self, mask: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """Rewrites a predicate on too few indices for a vector comparison into one on the numbers of the tile's
        elements.

        Ascend's compiler would compare the indices before it broadcasts them, and element by element.
        """
        bounds = mask.predicate
        if bounds is None or not bounds.exact or not self.kernel.axes_of(mask.shape):
            return mask
        all_of_them = math.prod(map(self.kernel.max_block, axes))
        few = [self.kernel.axis_with(symbol).prefix for symbol in bounds.symbols]
        if all_of_them < current_target().compared_at_once(4) or not any(
            self._compares_few(axis, axes, all_of_them) for axis in few
        ):
            return mask
        text = " & ".join(self._bounds_on_numbers(bounds, symbol, axes) for symbol in bounds.symbols)
        result = self.kernel.cse.generate(self.kernel.compute, text, dtype=torch.bool, shape=self.kernel.shape_of(axes))
        result.predicate = bounds
        return result

    def _compares_few(self, axis: str, axes: Sequence[str], all_of_them: int) -> bool:
        """Whether a predicate on the index along `axis` is too short for a vector comparison in a tile with dimensions
        `axes` and `all_of_them` elements.
        """
        # Broadcast along outer axes, a row of predicates of less than 32 bytes would take blocks of its own; any
        # broadcast predicate is compared once more, in 16 bits.
        is_dear = axis == axes[-1] or all_of_them < current_target().compared_at_once(2)
        least = 1 if is_dear else current_target().few_comparisons
        return least < self.kernel.max_block(axis) < current_target().compared_at_once(4)

    def _bounds_on_numbers(self, bounds: Bounds, symbol: sympy.Symbol, axes: Sequence[str]) -> str:
        """The bounds of one axis, as a predicate on the numbers of the elements of a tile with dimensions `axes`."""
        axis, shape = self.kernel.axis_with(symbol).prefix, self.kernel.shape_of(axes)
        if axis == axes[0]:
            number = self.hoisted("number", f"tl.arange(0, {' * '.join(shape)})")
            inner = "".join(f" * {block}" for block in shape[1:])
        else:
            number, inner = self.counted(axis, dict(zip(axes, shape, strict=True))), ""
        place = self.hoisted("at", f"tl.reshape({number}, [{', '.join(shape)}])")
        return " & ".join(
            f"({place} {sign} ({self.kernel.index_to_str(ends[symbol] - self.offset(axis))}){inner})"
            for sign, ends in ((">=", bounds.low), ("<", bounds.high))
            if symbol in ends
        )

    def offset(self, axis: str) -> sympy.Expr:
        """The index of the tile's first element along `axis`."""
        if self.kernel.is_whole(axis):
            return sympy.S.Zero
        self.blocks_with_offsets.add(axis)
        return sympy.Symbol(f"{axis}offset", integer=True, nonnegative=True)

    def local(self, axis: str, axes: Sequence[str]) -> str:
        """The position in the tile along `axis`, with the dimensions `axes`, or with one dimension if
        `is_counted(axes)`.
        """
        if self.is_counted(axes):
            return self.counted(axis, dict(zip(axes, self.kernel.shape_of(axes), strict=True)))
        return f"tl.arange(0, {self.kernel.block(axis)}){subscript((axis,), axes)}"

    def is_counted(self, axes: Sequence[str]) -> bool:
        """Whether a table for elements along `axes` is computed from their numbers. In a sum over dimensions, a term
        whose innermost dimension is shorter than a burst would take a block of the Unified Buffer for each element.
        """
        short = {
            axis for axis in axes if axis in self.kernel.axis_of and not fills_bursts(self.kernel.max_block(axis), 4)
        }
        return len(axes) > 1 and (len(short) > 1 or axes[-1] in short)

    def counted(self, dimension: str, sizes: dict[str, str]) -> str:
        """The position along `dimension` of each element of a tile with dimensions of these sizes, as a vector."""
        outermost = next(iter(sizes))
        remaining = self.hoisted("number", f"tl.arange(0, {' * '.join(sizes.values())})")
        for name, size in reversed(sizes.items()):
            if name == outermost:
                break
            quotient = self.hoisted("part", f"device_functions.small_quotient({remaining}, {size})")
            if name == dimension:
                return f"({remaining} - {size} * {quotient})"
            remaining = quotient
        return remaining

    def flat(self, text: str, axes: Sequence[str]) -> str:
        """`text`, an expression of `local` positions, with one dimension."""
        if len(axes) < 2 or self.is_counted(axes):
            return text
        return f"tl.reshape({text}, [{' * '.join(self.kernel.shape_of(axes))}])"

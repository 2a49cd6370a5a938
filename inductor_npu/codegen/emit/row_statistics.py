"""Mean and variance of rows, and the sums of a softmax: several values that are reduced together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_type

from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.tile_kernel import TileKernel


class RowStatistics:
    """Writes for `kernel` the reductions that have several results. `meet` reduces a value over the lanes of a tile."""

    def __init__(
        self, kernel: TileKernel, rows: Rows, meet: Callable[[str, CSEVariable, torch.dtype], CSEVariable]
    ) -> None:
        self.kernel, self.rows, self.meet = kernel, rows, meet

    def variance(self, dtype: torch.dtype, value: CSEVariable) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of each row, in `dtype`."""
        if not self.kernel.tile.loops:
            return self.kernel.welford_reduce_fallback(dtype, value)
        value = self.kernel.broadcast(value, self.rows.reduced_axes(value), self.kernel.compute)
        part = self._variance_of_tile(value)
        whole = tuple(self.kernel.accumulator(each.shape, each.dtype, 0.0, triton_type(each.dtype)) for each in part)
        for old, new in zip(whole, self._joined_variance(whole, part), strict=True):
            self.kernel.compute.writeline(f"{old} = {new}")
        return whole

    def _variance_of_tile(self, value: CSEVariable) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of the part of each row in the tile."""
        axes, dtype = self.kernel.axes_of(value.shape), value.dtype
        count = self.kernel.generate(f"tl.full([], {self._count_in_tile(axes)}, {triton_type(dtype)})", dtype, ())
        total = self.meet("sum", self.rows.with_masked_value(value, 0.0), dtype)
        mean = self.kernel.generate(f"{total} / {count}", dtype, total.shape)
        distance = self.kernel.generate(f"{value} - {self.kernel.expanded(mean, axes)}", dtype, value.shape)
        distance = self.kernel.generate(self.rows.within(distance, "0.0", value), dtype, value.shape)
        squares = self.kernel.generate(f"{distance} * {distance}", dtype, value.shape)
        return mean, self.meet("sum", squares, dtype), count

    def _count_in_tile(self, axes: Sequence[str]) -> str:
        """How many elements of a row are in a tile that has the reduced ones of `axes`."""
        counts = []
        for axis in axes:
            if self.kernel.axis_of[axis].is_reduction:
                left = f"{axis}numel - {axis}offset" if axis in self.kernel.tile.loops else f"{axis}numel"
                counts.append(
                    f"tl.minimum({left}, {self.kernel.block(axis)})"
                    if self.kernel.needs_mask(axis)
                    else self.kernel.block(axis)
                )
        return " * ".join(counts) or "1"

    def _joined_variance(self, first: Sequence[CSEVariable], second: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of two parts of rows, of which the second is not empty.

        Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
        """
        (mean, squares, count), (more_mean, more_squares, more_count) = first, second
        shape, dtype = mean.shape, mean.dtype
        total = self.kernel.generate(f"{count} + {more_count}", dtype, count.shape)
        share = self.kernel.generate(f"{more_count} / {total}", dtype, count.shape)
        distance = self.kernel.generate(f"{more_mean} - {mean}", dtype, shape)
        spread = f"{squares} + {more_squares} + {distance} * {distance} * ({count} * {share})"
        return (
            self.kernel.generate(f"{mean} + {distance} * {share}", dtype, shape),
            self.kernel.generate(spread, dtype, shape),
            total,
        )

    def variance_of_parts(self, parts: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of rows, from such triples of their parts."""
        axes = self.kernel.union_of_axes([part.shape for part in parts])
        axes = self.kernel.in_tile_order({*axes, *self.rows.reduced_axes(parts[0])})
        mean, squares, count = (self.kernel.broadcast(part, axes, self.kernel.compute) for part in parts)
        if not self.kernel.tile.loops:
            return self._variance_of_lanes(*(self.rows.with_masked_value(part, 0.0) for part in (mean, squares, count)))
        old_mean, old_squares, old_count = (
            self.kernel.accumulator(mean.shape, mean.dtype, 0.0, triton_type(mean.dtype)) for _ in range(3)
        )
        total = self.kernel.generate(f"{old_count} + {count}", mean.dtype, mean.shape)
        share = self.kernel.generate(f"tl.where({total} == 0.0, 0.0, {count} / {total})", mean.dtype, mean.shape)
        distance = self.kernel.generate(f"{mean} - {old_mean}", mean.dtype, mean.shape)
        moved = self.kernel.generate(f"{old_mean} + {distance} * {share}", mean.dtype, mean.shape)
        wider = f"{old_squares} + {squares} + {distance} * {distance} * {old_count} * {share}"
        wider_value = self.kernel.generate(wider, mean.dtype, mean.shape)
        for accumulator, updated in ((old_mean, moved), (old_squares, wider_value), (old_count, total)):
            self.kernel.compute.writeline(f"{accumulator} = {self.rows.within(updated, accumulator, mean)}")
        with self.kernel.writing_to(self.kernel.post_loop_combine):
            return self._variance_of_lanes(old_mean, old_squares, old_count)

    def _variance_of_lanes(
        self, mean: CSEVariable, squares: CSEVariable, count: CSEVariable
    ) -> tuple[CSEVariable, ...]:
        axes = self.kernel.axes_of(mean.shape)
        total = self.meet("sum", count, mean.dtype)
        weighted = self.kernel.generate(f"{mean} * {count}", mean.dtype, mean.shape)
        middle = self.meet("sum", weighted, mean.dtype)
        some = f"tl.maximum({total}, 1.0)"  # a part that ends behind the row has no elements
        middle = self.kernel.generate(f"{middle} / {some}", mean.dtype, middle.shape)
        distance = self.kernel.generate(f"{mean} - {self.kernel.expanded(middle, axes)}", mean.dtype, mean.shape)
        spread = f"{squares} + {count} * {distance} * {distance}"
        return middle, self.meet("sum", self.kernel.generate(spread, mean.dtype, mean.shape), mean.dtype), total

    def softmax(self, dtype: torch.dtype, values: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        """(largest, sum of exp(value - largest)) of each row, in `dtype`; from values, or from such pairs of parts of
        the row.
        """
        if not self.kernel.tile.loops and len(values) == 1:
            return self.kernel.prepare_softmax_twopass_fallback(dtype, values[0])
        axes = self.kernel.in_tile_order(
            {*self.kernel.union_of_axes([v.shape for v in values]), *self.rows.reduced_axes(values[0])}
        )
        value, *rest = (self.kernel.broadcast(part, axes, self.kernel.compute) for part in values)
        if not self.kernel.tile.loops:
            return self._softmax_of_lanes(
                self.rows.with_masked_value(value, -math.inf), self.rows.with_masked_value(rest[0], 0.0)
            )
        largest = self.kernel.accumulator(value.shape, torch.float32, -math.inf, "tl.float32")
        total = self.kernel.accumulator(value.shape, torch.float32, 0.0, "tl.float32")
        higher = self.kernel.generate(f"device_functions.larger({largest}, {value})", torch.float32, value.shape)
        # -inf - -inf is NaN, where only -inf has been seen yet.
        base = self.kernel.generate(f'tl.where({higher} == float("-inf"), 0.0, {higher})', torch.float32, value.shape)
        scale = f" * {rest[0]}" if rest else ""
        summed = f"{total} * tl.exp({largest} - {base}) + tl.exp({value} - {base}){scale}"
        summed_value = self.kernel.generate(summed, torch.float32, value.shape)
        self.kernel.compute.writeline(f"{total} = {self.rows.within(summed_value, total, value)}")
        self.kernel.compute.writeline(f"{largest} = {self.rows.within(higher, largest, value)}")
        with self.kernel.writing_to(self.kernel.post_loop_combine):
            return self._softmax_of_lanes(largest, total)

    def _softmax_of_lanes(self, largest: CSEVariable, total: CSEVariable) -> tuple[CSEVariable, ...]:
        highest = self.meet("max", largest, torch.float32)
        base = self.kernel.generate(
            f'tl.where({highest} == float("-inf"), 0.0, {highest})', torch.float32, highest.shape
        )
        base_wide = self.kernel.expanded(base, self.kernel.axes_of(largest.shape))
        summed = self.kernel.generate(f"{total} * tl.exp({largest} - {base_wide})", torch.float32, largest.shape)
        return highest, self.meet("sum", summed, torch.float32)

"""Reductions of an NPU kernel: over whole rows in the tile, or over rows read in a loop.

In a loop each lane of the tile has an accumulator of its own; lanes are combined after the loop. Everything is written
with sums, maxima and selections of tiles: Ascend's compiler refuses reductions of several values at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_acc_type, triton_type, upcast_acc_dtype
from torch._inductor.virtualized import OpsWrapper, V, ops

from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.operands import INT32, bounds_of
from inductor_npu.codegen.emit.row_statistics import RowStatistics
from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.providers import current_target
from inductor_npu.tiling import limits

# Functions that combine the lanes of a tile; each takes a tile and a dimension.
_MEET = {
    "sum": "tl.sum",
    "prod": "device_functions.product",
    "max": "device_functions.largest",
    "min": "device_functions.smallest",
    "any": "device_functions.any_true",
    "all": "device_functions.all_true",
    "xor_sum": "tl.xor_sum",
}

# The same for predicates: a sum is whether any is true, a product whether all are.
_MEET_OF_CONDITIONS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}

# For integers that are exact in float32, in which Ascend's reductions stay vectors to the end.
_BITS_IN_FLOAT32 = limits.EXACT_IN_FLOAT32.bit_length() - 1

# Limbs of a sum. For 64 bits each limb has 8 bits, whose sums are exact for 65536 elements of a tile.
_MOST_LIMBS = 8

_NOT_REACHED = torch.iinfo(torch.int32).max


class Reducer:
    """Writes the reductions of `kernel`."""

    def __init__(self, kernel: TileKernel, rows: Rows, addresses: Addresses) -> None:
        self.kernel, self.rows, self.addresses = kernel, rows, addresses
        self._statistics = RowStatistics(kernel, rows, self._meet)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        """Writes the reduction of `value` over all reduced axes; returns a tuple for those with several results.

        `dtype` is that of the results, `src_dtype` that of `value`. Raises NotImplementedError for an unknown
        `reduction_type`.
        """
        several = value if isinstance(value, tuple) else (value,)
        several = (_in_bits_of(several[0], src_dtype), *several[1:])
        several = tuple(_in_float32(part) for part in several)
        if src_dtype in (torch.float16, torch.bfloat16):
            src_dtype = torch.float32
        key = (src_dtype, reduction_type, several)
        if key in self.kernel.cse.reduction_cache:
            return self.kernel.cse.reduction_cache[key]
        if reduction_type.startswith(("argmax", "argmin")):
            result = self._position(several, reduction_type, src_dtype)
        elif reduction_type == "welford_reduce":
            result = self._statistics.variance(dtype, several[0])
        elif reduction_type == "welford_combine":
            result = self._statistics.variance_of_parts(several)
        elif reduction_type == "online_softmax_reduce":
            result = self._statistics.softmax(dtype, several)
        elif reduction_type == "sum" and several[0].dtype in (torch.int32, torch.int64):
            result = self._sum_of_integers(several[0])
        elif reduction_type in _MEET:
            result = self._simple(src_dtype, reduction_type, several[0])
        else:
            raise NotImplementedError(f"reduction {reduction_type} has no form for NPUs yet")
        self.kernel.cse.reduction_cache[key] = result
        self.kernel.outside_loop_vars.update(result if isinstance(result, tuple) else (result,))
        return result

    def _simple(self, src_dtype: torch.dtype, kind: str, value: CSEVariable) -> CSEVariable:
        identity = ir.Reduction.default_accumulator(kind, src_dtype)
        value = self.kernel.broadcast(value, self.rows.reduced_axes(value), self.kernel.compute)
        if not self.kernel.tile.loops:
            result = self._meet(kind, self.rows.with_masked_value(value, identity), src_dtype)
            if kind == "max":
                result.maximum_of = value
            return result
        accumulator = self.kernel.accumulator(
            value.shape, upcast_acc_dtype(src_dtype), identity, triton_acc_type(src_dtype)
        )
        value = self.rows.with_masked_value(value, identity)
        updated = ir.get_reduction_combine_fn(kind, src_dtype)(accumulator, value)
        self.kernel.compute.writeline(f"{accumulator} = {updated}")
        with self.kernel.after_loops():
            return self._meet(kind, accumulator, src_dtype)

    def _meet(self, kind: str, value: CSEVariable, src_dtype: torch.dtype) -> CSEVariable:
        """`value` reduced over its reduced axes, one after the other."""
        if src_dtype == torch.bool:
            kind = _MEET_OF_CONDITIONS.get(kind, kind)
            if value.dtype != torch.bool:
                value = self.kernel.generate(f"({value} != 0)", torch.bool, value.shape)
        while axes := [axis for axis in self.kernel.axes_of(value.shape) if self.kernel.axis_of[axis].is_reduction]:
            dimension = self.kernel.axes_of(value.shape).index(axes[-1])
            shape = tuple(size for place, size in enumerate(value.shape or ()) if place != dimension)
            # Triton sums narrow integers in 32 bits.
            dtype = torch.int32 if kind == "sum" and value.dtype in limits.SUMMED_IN_32_BITS else value.dtype
            value = self.kernel.generate(f"{_MEET[kind]}({value}, {dimension})", dtype, shape)
        if src_dtype in limits.SUMMED_IN_32_BITS and value.dtype == torch.int32:
            return OpsWrapper._unwrap(ops.to_dtype(value, src_dtype, src_dtype=torch.int32))
        return value

    def _sum_of_integers(self, value: CSEVariable) -> CSEVariable:
        """The sum, which wraps: in float32 where that is exact; else each lane's in integers, and over the lanes in
        limbs.
        """
        dtype, bounds, count = value.dtype, bounds_of(value), self.kernel.features.reduction_numel
        assert dtype is not None and bounds is not None, "an integer value has a dtype and bounds"
        most = max(map(abs, bounds))
        if isinstance(count, (int, sympy.Integer)) and most * int(count) <= limits.EXACT_IN_FLOAT32:
            total = self._simple(torch.float32, "sum", self.kernel.in_type(value, torch.float32))
            with self.kernel.after_loops():
                return self.kernel.in_type(total, dtype)
        rounds = self._rounds()
        if rounds is not None and most * rounds <= INT32.max:
            value = self.kernel.in_type(value, torch.int32)
        value = self.kernel.broadcast(value, self.rows.reduced_axes(value), self.kernel.compute)
        value = self._zero_beyond_rows(value)
        if self.kernel.tile.loops:
            is_wide = value.dtype == torch.int64
            accumulator = self.kernel.accumulator(value.shape, value.dtype, 0, "tl.int64" if is_wide else "tl.int32")
            added = f"device_functions.add_int64({accumulator}, {value})" if is_wide else f"{accumulator} + {value}"
            self.kernel.compute.writeline(f"{accumulator} = {added}")
            most, value = (1 << 63 if is_wide else most * rounds if rounds else 1 << 31), accumulator
        with self.kernel.after_loops():
            return self._sum_of_limbs(value, most, dtype)

    def _sum_of_limbs(self, value: CSEVariable, most: int, dtype: torch.dtype) -> CSEVariable:
        """The sum, in `dtype`, of integers of at most `most` along the reduced axes of the tile."""
        assert value.dtype is not None, "a value has a dtype"
        if current_target().sums_wide_integers:
            return self._meet("sum", self.kernel.in_type(value, dtype), dtype)
        lanes = math.prod(
            self.kernel.max_block(axis)
            for axis in self.kernel.axes_of(value.shape)
            if self.kernel.axis_of[axis].is_reduction
        )
        width = _BITS_IN_FLOAT32 - (lanes - 1).bit_length()
        bits = min(most.bit_length() + 1, 8 * value.dtype.itemsize)
        count = -(-bits // max(width, 1))
        if count > _MOST_LIMBS:
            return self.kernel.in_type(self._meet("sum", value, value.dtype), dtype)
        sums = []
        for place in range(count):
            text = f"device_functions.limb({value}, {place * width}, {width}, {place == count - 1})"
            sums.append(self._meet("sum", self.kernel.generate(text, torch.float32, value.shape), torch.float32))
        if dtype == torch.int64 and sums[0].shape:
            limbs = [*map(str, sums), *["0"] * (_MOST_LIMBS - count)]
            text = f"device_functions.int64_of_limbs({width}, {count}, {', '.join(limbs)})"
        else:
            kind = triton_type(dtype)
            text = " + ".join(f"({part}.to({kind}) << {place * width})" for place, part in enumerate(sums))
        return self.kernel.generate(text, dtype, sums[0].shape)

    def _rounds(self) -> int | None:
        """The number of iterations of the loops over reduced axes, None if it is dynamic."""
        rounds = 1
        for axis in self.kernel.tile.loops:
            length = self.kernel.axis_of[axis].length
            if not isinstance(length, (int, sympy.Integer)):
                return None
            rounds *= -(-int(length) // self.kernel.max_block(axis))
        return rounds

    def _zero_beyond_rows(self, value: CSEVariable) -> CSEVariable:
        """`value`, an integer, with 0 in its masked lanes."""
        if value.dtype != torch.int64:
            return self.rows.with_masked_value(value, 0)
        mask = self.rows.reduced_mask(value)
        if not mask or self.kernel.masked_lanes.fill(value, 0):
            return value
        text = f"device_functions.where_int64({mask}, {value}, tl.full([], 0, tl.int64))"
        return self.kernel.generate(text, torch.int64, value.shape)

    def sum_along(self, value: CSEVariable, axis: str) -> CSEVariable:
        """The sum over the lanes along `axis` that exist."""
        axes = self.kernel.axes_of(value.shape)
        if self.kernel.needs_mask(axis):
            text = f"tl.where({self.addresses.mask_text_of(axis, axes)}, {value}, 0)"
            value = self.kernel.generate(text, value.dtype, value.shape)
        dimension = axes.index(axis)
        shape = tuple(size for place, size in enumerate(value.shape or ()) if place != dimension)
        return self.kernel.generate(f"tl.sum({value}, {dimension})", value.dtype, shape)

    def _position(self, values: Sequence[CSEVariable], kind: str, src_dtype: torch.dtype) -> Any:
        """argmax and argmin: the first position of the extreme value, or of the first NaN; or the value; or both.
        Integers are compared in float32 where that is exact: Ascend's reductions of int32 rows end element by element.
        """
        root = "max" if kind.startswith("argmax") else "min"
        identity = ir.Reduction.default_accumulator(f"arg{root}", src_dtype)
        value, held_as, known = values[0], src_dtype, bounds_of(values[0])
        if src_dtype != torch.bool and known is not None and max(map(abs, known)) <= limits.EXACT_IN_FLOAT32:
            value, held_as = self.kernel.in_type(value, torch.float32), torch.float32
        value = self.kernel.broadcast(value, self.rows.reduced_axes(value), self.kernel.compute)
        position = self._given_position(values[1]) if len(values) > 1 else self._flat_position()
        position = self.kernel.broadcast(position, self.kernel.axes_of(value.shape), self.kernel.compute)
        if self.kernel.tile.loops:
            best = self.kernel.accumulator(value.shape, upcast_acc_dtype(held_as), identity, triton_acc_type(held_as))
            first = self.kernel.accumulator(value.shape, torch.int32, _NOT_REACHED, "tl.int32")
            better = f"({value} {'>' if root == 'max' else '<'} {best}) | ({first} == {_NOT_REACHED})"
            if src_dtype.is_floating_point:
                better = f"({better} | ({value} != {value})) & ({best} == {best})"
            taken = self.kernel.generate(f"({better})", torch.bool, value.shape)
            taken = self.kernel.generate(self.rows.within(taken, "False", value), torch.bool, value.shape)
            self.kernel.compute.writeline(f"{best} = tl.where({taken}, {value}, {best})")
            self.kernel.compute.writeline(f"{first} = tl.where({taken}, {position}, {first})")
            with self.kernel.writing_to(self.kernel.post_loop_combine):
                return self._position_of_lanes(best, first, root, kind, src_dtype)
        inside = self.rows.reduced_mask(value)
        masked = self.rows.with_masked_value(value, identity)
        if inside:
            position = self.kernel.generate(f"tl.where({inside}, {position}, {_NOT_REACHED})", torch.int32, value.shape)
        return self._position_of_lanes(masked, position, root, kind, src_dtype)

    def _position_of_lanes(
        self, value: CSEVariable, position: CSEVariable, root: str, kind: str, src_dtype: torch.dtype
    ) -> Any:
        best = self._meet(root, value, src_dtype)
        result = best
        if kind.endswith("_value") and not src_dtype.is_floating_point and best.dtype == torch.float32:
            result = self.kernel.in_type(best, src_dtype)
        if kind.endswith("_value") and not kind.endswith("_with_value"):
            return result
        wide = self.kernel.expanded(best, self.kernel.axes_of(value.shape))
        is_best = f"({value} == {wide})"
        if src_dtype.is_floating_point:
            is_best += f" | ({value} != {value})"
        limit, number = str(_NOT_REACHED), torch.int32
        if V.graph.sizevars.statically_known_lt(self.kernel.features.reduction_numel, limits.EXACT_IN_FLOAT32):
            position = self.kernel.generate(f"{position}.to(tl.float32)", torch.float32, value.shape)
            limit, number = f"{float(limits.EXACT_IN_FLOAT32)}", torch.float32
        candidates = self.kernel.generate(f"tl.where({is_best}, {position}, {limit})", number, value.shape)
        first = self._meet("min", candidates, number)
        index_dtype = self.kernel.get_index_dtype_as_torch_dtype()
        index = self.kernel.generate(f"{first}.to({self.kernel.index_dtype})", index_dtype, first.shape)
        return (result, index) if kind.endswith("_with_value") else index

    def _given_position(self, position: CSEVariable) -> CSEVariable:
        """A position in the order of the tensor, from Inductor, in 32 bits. It has 64; in torch 2.11, which has no
        `value_expr`, it passes for an int32, and still has 64 bits if a size, which is an argument, is a part of it.
        """
        index = position.index
        has_sizes = index is not None and not index.free_symbols <= {axis.symbol for axis in self.kernel.axes.all}
        return self._in_32_bits(position) if position.dtype == torch.int64 or has_sizes else position

    def _flat_position(self) -> CSEVariable:
        position = self.addresses.index_value(
            sum(axis.symbol * axis.stride for axis in self.kernel.axes.reduction), torch.int32
        )
        are_known = all(isinstance(axis.stride, (int, sympy.Integer)) for axis in self.kernel.axes.reduction)
        return position if self.kernel.index_dtype == "tl.int32" and are_known else self._in_32_bits(position)

    def _in_32_bits(self, position: CSEVariable) -> CSEVariable:
        if V.graph.sizevars.statically_known_lt(_NOT_REACHED, self.kernel.features.reduction_numel):
            return position  # of 64 bits: the kernel does not compile
        # A stride that is an argument may have 64 bits, as all indices have where a tensor is that large.
        return self.kernel.generate(f"{position}.to(tl.int32)", torch.int32, position.shape)


def _in_float32(value: CSEVariable) -> CSEVariable:
    """16-bit floats as float32, in which they are summed and compared."""
    if value.dtype in (torch.float16, torch.bfloat16):
        return OpsWrapper._unwrap(ops.to_dtype(value, torch.float32))
    return value


def _in_bits_of(value: CSEVariable, dtype: torch.dtype) -> CSEVariable:
    """An integer of fewer bits than `dtype` as one of `dtype`: sums wrap in its bits, and its extremes are the
    masked-lane values. torch 2.11, which has no `value_expr`, passes an int32 index as one of int64.
    """
    if value.dtype is None or value.dtype.is_floating_point or torch.bool in (dtype, value.dtype):
        return value
    if dtype.is_floating_point or value.dtype.itemsize >= dtype.itemsize:
        return value
    return OpsWrapper._unwrap(ops.to_dtype(value, dtype))

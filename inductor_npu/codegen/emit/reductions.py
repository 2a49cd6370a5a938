"""Reductions of an NPU kernel: over whole rows in the tile, or over rows read in a loop.

In a loop each lane of the tile has an accumulator of its own; lanes meet after the loop. Everything is written with
sums, maxima and selections of tiles: Ascend's compiler refuses reductions of several values at once.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import constant_repr
from torch._inductor.codegen.triton import triton_acc_type, triton_compute_type, triton_type, upcast_acc_dtype
from torch._inductor.virtualized import OpsWrapper, V, ops
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.masked_lanes import take_filling
from inductor_npu.codegen.emit.operands import INT32, bounds_of
from inductor_npu.codegen.emit.tile_kernel import Address, TileKernel
from inductor_npu.tiling import limits

# Sums of these wrap, as in eager, before anything else is done with them.
_NARROW = (torch.int8, torch.uint8, torch.int16, torch.uint16)

# How the lanes of a tile meet; each takes a tile and a dimension.
_MEET = {
    "sum": "tl.sum",
    "prod": "device_functions.product",
    "max": "device_functions.largest",
    "min": "device_functions.smallest",
    "any": "device_functions.any_true",
    "all": "device_functions.all_true",
    "xor_sum": "tl.xor_sum",
}

# How conditions meet: a sum is whether any is true, a product whether all are.
_MEET_OF_CONDITIONS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}

# Of whole numbers that are exact in float32, in which Ascend's reductions are vectors to the end.
_BITS_IN_FLOAT32 = limits.EXACT_IN_FLOAT32.bit_length() - 1

# Limbs that are put together; of 64 bits that many have 8 bits each, whose sums are exact for 65536 elements of a tile.
_MOST_LIMBS = 8

_NOT_REACHED = torch.iinfo(torch.int32).max


class Reductions(TileKernel):
    """A kernel of tiles that reduces."""

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        """The reduction of `value` over all reduced axes; a tuple for those that have several results."""
        several = value if isinstance(value, tuple) else (value,)
        several = (_in_bits_of(several[0], src_dtype), *several[1:])
        several = tuple(_in_float32(part) for part in several)
        if src_dtype in (torch.float16, torch.bfloat16):
            src_dtype = torch.float32
        key = (src_dtype, reduction_type, several)
        if key in self.cse.reduction_cache:
            return self.cse.reduction_cache[key]
        if reduction_type.startswith(("argmax", "argmin")):
            result = self._position(several, reduction_type, src_dtype)
        elif reduction_type == "welford_reduce":
            result = self._variance(dtype, several[0])
        elif reduction_type == "welford_combine":
            result = self._variance_of_parts(several)
        elif reduction_type == "online_softmax_reduce":
            result = self._softmax(dtype, several)
        elif reduction_type == "sum" and several[0].dtype in (torch.int32, torch.int64):
            result = self._sum_of_integers(several[0])
        elif reduction_type in _MEET:
            result = self._simple(src_dtype, reduction_type, several[0])
        else:
            raise NotImplementedError(f"reduction {reduction_type} has no form for NPUs yet")
        self.cse.reduction_cache[key] = result
        self.outside_loop_vars.update(result if isinstance(result, tuple) else (result,))
        return result

    # -- one value ----------------------------------------------------------------------------------------------------

    def _simple(self, src_dtype: torch.dtype, kind: str, value: CSEVariable) -> CSEVariable:
        identity = ir.Reduction.default_accumulator(kind, src_dtype)
        value = self.broadcast(value, self.reduced_axes(value), self.compute)
        if not self.tile.loops:
            result = self._meet(kind, self.padded(value, identity), src_dtype)
            if kind == "max":
                result.maximum_of = value
            return result
        accumulator = self._accumulator(value.shape, upcast_acc_dtype(src_dtype), identity, triton_acc_type(src_dtype))
        value = self.padded(value, identity)
        updated = ir.get_reduction_combine_fn(kind, src_dtype)(accumulator, value)
        self.compute.writeline(f"{accumulator} = {updated}")
        with self._after_loops():
            return self._meet(kind, accumulator, src_dtype)

    def _meet(self, kind: str, value: CSEVariable, src_dtype: torch.dtype) -> CSEVariable:
        """`value` reduced over its reduced axes, one after the other."""
        if src_dtype == torch.bool:
            kind = _MEET_OF_CONDITIONS.get(kind, kind)
            if value.dtype != torch.bool:
                value = self._generate(f"({value} != 0)", torch.bool, value.shape)
        while axes := [axis for axis in self.axes_of(value.shape) if self.axis_of[axis].is_reduction]:
            dimension = self.axes_of(value.shape).index(axes[-1])
            shape = tuple(size for place, size in enumerate(value.shape or ()) if place != dimension)
            # Triton adds narrow integers up in 32 bits.
            dtype = torch.int32 if kind == "sum" and value.dtype in _NARROW else value.dtype
            value = self._generate(f"{_MEET[kind]}({value}, {dimension})", dtype, shape)
        if src_dtype in _NARROW and value.dtype == torch.int32:
            return OpsWrapper._unwrap(ops.to_dtype(value, src_dtype, src_dtype=torch.int32))
        return value

    # -- sums of integers ---------------------------------------------------------------------------------------------

    def _sum_of_integers(self, value: CSEVariable) -> CSEVariable:
        """The sum, which wraps: in float32 where that is exact; else each lane's in integers, the lanes' in limbs."""
        dtype, bounds, count = value.dtype, bounds_of(value), self.features.reduction_numel
        assert dtype is not None and bounds is not None, "an integer value has a dtype and bounds"
        most = max(map(abs, bounds))
        if isinstance(count, (int, sympy.Integer)) and most * int(count) <= limits.EXACT_IN_FLOAT32:
            total = self._simple(torch.float32, "sum", self._in_type(value, torch.float32))
            with self._after_loops():
                return self._in_type(total, dtype)
        rounds = self._rounds()
        if rounds is not None and most * rounds <= INT32.max:
            value = self._in_type(value, torch.int32)
        value = self.broadcast(value, self.reduced_axes(value), self.compute)
        value = self._zero_beyond_rows(value)
        if self.tile.loops:
            is_wide = value.dtype == torch.int64
            accumulator = self._accumulator(value.shape, value.dtype, 0, "tl.int64" if is_wide else "tl.int32")
            added = f"device_functions.add_int64({accumulator}, {value})" if is_wide else f"{accumulator} + {value}"
            self.compute.writeline(f"{accumulator} = {added}")
            most, value = (1 << 63 if is_wide else most * rounds if rounds else 1 << 31), accumulator
        with self._after_loops():
            return self._sum_of_limbs(value, most, dtype)

    def _sum_of_limbs(self, value: CSEVariable, most: int, dtype: torch.dtype) -> CSEVariable:
        """The sum, in `dtype`, of integers of at most `most` along the reduced axes of the tile."""
        assert value.dtype is not None, "a value has a dtype"
        lanes = math.prod(self.max_block(axis) for axis in self.axes_of(value.shape) if self.axis_of[axis].is_reduction)
        width = _BITS_IN_FLOAT32 - (lanes - 1).bit_length()
        bits = min(most.bit_length() + 1, 8 * value.dtype.itemsize)
        count = -(-bits // max(width, 1))
        if count > _MOST_LIMBS:
            return self._in_type(self._meet("sum", value, value.dtype), dtype)
        sums = []
        for place in range(count):
            text = f"device_functions.limb({value}, {place * width}, {width}, {place == count - 1})"
            sums.append(self._meet("sum", self._generate(text, torch.float32, value.shape), torch.float32))
        if dtype == torch.int64 and sums[0].shape:
            limbs = [*map(str, sums), *["0"] * (_MOST_LIMBS - count)]
            text = f"device_functions.int64_of_limbs({width}, {count}, {', '.join(limbs)})"
        else:
            kind = triton_type(dtype)
            text = " + ".join(f"({part}.to({kind}) << {place * width})" for place, part in enumerate(sums))
        return self._generate(text, dtype, sums[0].shape)

    def _rounds(self) -> int | None:
        """How often the loops over reduced axes go round, None if that is not known."""
        rounds = 1
        for axis in self.tile.loops:
            length = self.axis_of[axis].length
            if not isinstance(length, (int, sympy.Integer)):
                return None
            rounds *= -(-int(length) // self.max_block(axis))
        return rounds

    def _zero_beyond_rows(self, value: CSEVariable) -> CSEVariable:
        """`value`, an integer, with 0 beyond the end of the reduced axes."""
        if value.dtype != torch.int64:
            return self.padded(value, 0)
        mask = self.reduced_mask(value)
        if not mask or self.fillings.fill(value, 0):
            return value
        text = f"device_functions.where_int64({mask}, {value}, tl.full([], 0, tl.int64))"
        return self._generate(text, torch.int64, value.shape)

    def sum_along(self, value: CSEVariable, axis: str) -> CSEVariable:
        """The sum over the part of `axis` in the tile that exists."""
        axes = self.axes_of(value.shape)
        if self.needs_mask(axis):
            text = f"tl.where({self.mask_text_of(axis, axes)}, {value}, 0)"
            value = self._generate(text, value.dtype, value.shape)
        dimension = axes.index(axis)
        shape = tuple(size for place, size in enumerate(value.shape or ()) if place != dimension)
        return self._generate(f"tl.sum({value}, {dimension})", value.dtype, shape)

    # -- positions ----------------------------------------------------------------------------------------------------

    def _position(self, values: Sequence[CSEVariable], kind: str, src_dtype: torch.dtype) -> Any:
        """argmax and argmin: the first position of the extreme value, or of the first NaN; or the value; or both.
        Integers are compared in float32 where that is exact: Ascend's reductions of int32 rows end element by element.
        """
        root = "max" if kind.startswith("argmax") else "min"
        identity = ir.Reduction.default_accumulator(f"arg{root}", src_dtype)
        value, held_as, known = values[0], src_dtype, bounds_of(values[0])
        if src_dtype != torch.bool and known is not None and max(map(abs, known)) <= limits.EXACT_IN_FLOAT32:
            value, held_as = self._in_type(value, torch.float32), torch.float32
        value = self.broadcast(value, self.reduced_axes(value), self.compute)
        position = values[1] if len(values) > 1 else self._flat_position()
        if position.dtype == torch.int64:  # as Inductor gives those in the order of the tensor
            position = self._in_32_bits(position)
        position = self.broadcast(position, self.axes_of(value.shape), self.compute)
        if self.tile.loops:
            best = self._accumulator(value.shape, upcast_acc_dtype(held_as), identity, triton_acc_type(held_as))
            first = self._accumulator(value.shape, torch.int32, _NOT_REACHED, "tl.int32")
            better = f"({value} {'>' if root == 'max' else '<'} {best}) | ({first} == {_NOT_REACHED})"
            if src_dtype.is_floating_point:
                better = f"({better} | ({value} != {value})) & ({best} == {best})"
            taken = self._generate(f"({better})", torch.bool, value.shape)
            taken = self._generate(self._within(taken, "False", value), torch.bool, value.shape)
            self.compute.writeline(f"{best} = tl.where({taken}, {value}, {best})")
            self.compute.writeline(f"{first} = tl.where({taken}, {position}, {first})")
            with self.writing_to(self.post_loop_combine):
                return self._position_of_lanes(best, first, root, kind, src_dtype)
        inside = self.reduced_mask(value)
        masked = self.padded(value, identity)
        if inside:
            position = self._generate(f"tl.where({inside}, {position}, {_NOT_REACHED})", torch.int32, value.shape)
        return self._position_of_lanes(masked, position, root, kind, src_dtype)

    def _position_of_lanes(
        self, value: CSEVariable, position: CSEVariable, root: str, kind: str, src_dtype: torch.dtype
    ) -> Any:
        best = self._meet(root, value, src_dtype)
        result = best
        if kind.endswith("_value") and not src_dtype.is_floating_point and best.dtype == torch.float32:
            result = self._in_type(best, src_dtype)
        if kind.endswith("_value") and not kind.endswith("_with_value"):
            return result
        wide = self.expanded(best, self.axes_of(value.shape))
        is_best = f"({value} == {wide})"
        if src_dtype.is_floating_point:
            is_best += f" | ({value} != {value})"
        limit, number = str(_NOT_REACHED), torch.int32
        if V.graph.sizevars.statically_known_lt(self.features.reduction_numel, limits.EXACT_IN_FLOAT32):
            position = self._generate(f"{position}.to(tl.float32)", torch.float32, value.shape)
            limit, number = f"{float(limits.EXACT_IN_FLOAT32)}", torch.float32
        candidates = self._generate(f"tl.where({is_best}, {position}, {limit})", number, value.shape)
        first = self._meet("min", candidates, number)
        index_dtype = self.get_index_dtype_as_torch_dtype()
        index = self._generate(f"{first}.to({self.index_dtype})", index_dtype, first.shape)
        return (result, index) if kind.endswith("_with_value") else index

    def _flat_position(self) -> CSEVariable:
        position = self.index_value(sum(axis.symbol * axis.stride for axis in self.axes.reduction), torch.int32)
        are_known = all(isinstance(axis.stride, (int, sympy.Integer)) for axis in self.axes.reduction)
        return position if self.index_dtype == "tl.int32" and are_known else self._in_32_bits(position)

    def _in_32_bits(self, position: CSEVariable) -> CSEVariable:
        if V.graph.sizevars.statically_known_lt(_NOT_REACHED, self.features.reduction_numel):
            return position  # of 64 bits, with which the kernel does not compile
        # A stride that is an argument may be one of 64 bits, as all indices are where a tensor is that large.
        return self._generate(f"{position}.to(tl.int32)", torch.int32, position.shape)

    # -- variance -----------------------------------------------------------------------------------------------------

    def _variance(self, dtype: torch.dtype, value: CSEVariable) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count)."""
        if not self.tile.loops:
            return self.welford_reduce_fallback(dtype, value)
        value = self.broadcast(value, self.reduced_axes(value), self.compute)
        part = self._variance_of_tile(value)
        whole = tuple(self._accumulator(each.shape, each.dtype, 0.0, triton_type(each.dtype)) for each in part)
        for old, new in zip(whole, self._joined_variance(whole, part), strict=True):
            self.compute.writeline(f"{old} = {new}")
        return whole

    def _variance_of_tile(self, value: CSEVariable) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of what the tile has of each row."""
        axes, dtype = self.axes_of(value.shape), value.dtype
        count = self._generate(f"tl.full([], {self._count_in_tile(axes)}, {triton_type(dtype)})", dtype, ())
        total = self._meet("sum", self.padded(value, 0.0), dtype)
        mean = self._generate(f"{total} / {count}", dtype, total.shape)
        distance = self._generate(f"{value} - {self.expanded(mean, axes)}", dtype, value.shape)
        distance = self._generate(self._within(distance, "0.0", value), dtype, value.shape)
        squares = self._generate(f"{distance} * {distance}", dtype, value.shape)
        return mean, self._meet("sum", squares, dtype), count

    def _count_in_tile(self, axes: Sequence[str]) -> str:
        """How many elements of a row are in a tile that has the reduced ones of `axes`."""
        counts = []
        for axis in axes:
            if self.axis_of[axis].is_reduction:
                left = f"{axis}numel - {axis}offset" if axis in self.tile.loops else f"{axis}numel"
                counts.append(f"tl.minimum({left}, {self.block(axis)})" if self.needs_mask(axis) else self.block(axis))
        return " * ".join(counts) or "1"

    def _joined_variance(self, first: Sequence[CSEVariable], second: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        """(mean, sum of squared distances from it, count) of two parts of rows, of which the second is not empty.

        Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
        """
        (mean, squares, count), (more_mean, more_squares, more_count) = first, second
        shape, dtype = mean.shape, mean.dtype
        total = self._generate(f"{count} + {more_count}", dtype, count.shape)
        share = self._generate(f"{more_count} / {total}", dtype, count.shape)
        distance = self._generate(f"{more_mean} - {mean}", dtype, shape)
        spread = f"{squares} + {more_squares} + {distance} * {distance} * ({count} * {share})"
        return (
            self._generate(f"{mean} + {distance} * {share}", dtype, shape),
            self._generate(spread, dtype, shape),
            total,
        )

    def _variance_of_parts(self, parts: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        axes = self.union_of_axes([part.shape for part in parts])
        axes = self.in_tile_order({*axes, *self.reduced_axes(parts[0])})
        mean, squares, count = (self.broadcast(part, axes, self.compute) for part in parts)
        if not self.tile.loops:
            return self._variance_of_lanes(*(self.padded(part, 0.0) for part in (mean, squares, count)))
        old_mean, old_squares, old_count = (
            self._accumulator(mean.shape, mean.dtype, 0.0, triton_type(mean.dtype)) for _ in range(3)
        )
        total = self._generate(f"{old_count} + {count}", mean.dtype, mean.shape)
        share = self._generate(f"tl.where({total} == 0.0, 0.0, {count} / {total})", mean.dtype, mean.shape)
        distance = self._generate(f"{mean} - {old_mean}", mean.dtype, mean.shape)
        moved = self._generate(f"{old_mean} + {distance} * {share}", mean.dtype, mean.shape)
        wider = f"{old_squares} + {squares} + {distance} * {distance} * {old_count} * {share}"
        wider_value = self._generate(wider, mean.dtype, mean.shape)
        for accumulator, updated in ((old_mean, moved), (old_squares, wider_value), (old_count, total)):
            self.compute.writeline(f"{accumulator} = {self._within(updated, accumulator, mean)}")
        with self.writing_to(self.post_loop_combine):
            return self._variance_of_lanes(old_mean, old_squares, old_count)

    def _variance_of_lanes(
        self, mean: CSEVariable, squares: CSEVariable, count: CSEVariable
    ) -> tuple[CSEVariable, ...]:
        axes = self.axes_of(mean.shape)
        total = self._meet("sum", count, mean.dtype)
        weighted = self._generate(f"{mean} * {count}", mean.dtype, mean.shape)
        middle = self._meet("sum", weighted, mean.dtype)
        middle = self._generate(f"{middle} / {total}", mean.dtype, middle.shape)
        distance = self._generate(f"{mean} - {self.expanded(middle, axes)}", mean.dtype, mean.shape)
        spread = f"{squares} + {count} * {distance} * {distance}"
        return middle, self._meet("sum", self._generate(spread, mean.dtype, mean.shape), mean.dtype), total

    # -- softmax ------------------------------------------------------------------------------------------------------

    def _softmax(self, dtype: torch.dtype, values: Sequence[CSEVariable]) -> tuple[CSEVariable, ...]:
        """(largest, sum of exp(value - largest)); from values, or from such pairs of parts of the row."""
        if not self.tile.loops and len(values) == 1:
            return self.prepare_softmax_twopass_fallback(dtype, values[0])
        axes = self.in_tile_order({*self.union_of_axes([v.shape for v in values]), *self.reduced_axes(values[0])})
        value, *rest = (self.broadcast(part, axes, self.compute) for part in values)
        if not self.tile.loops:
            return self._softmax_of_lanes(self.padded(value, -math.inf), self.padded(rest[0], 0.0))
        largest = self._accumulator(value.shape, torch.float32, -math.inf, "tl.float32")
        total = self._accumulator(value.shape, torch.float32, 0.0, "tl.float32")
        higher = self._generate(f"device_functions.larger({largest}, {value})", torch.float32, value.shape)
        # -inf - -inf is NaN, where nothing but -inf has been seen yet.
        base = self._generate(f'tl.where({higher} == float("-inf"), 0.0, {higher})', torch.float32, value.shape)
        scale = f" * {rest[0]}" if rest else ""
        summed = f"{total} * tl.exp({largest} - {base}) + tl.exp({value} - {base}){scale}"
        summed_value = self._generate(summed, torch.float32, value.shape)
        self.compute.writeline(f"{total} = {self._within(summed_value, total, value)}")
        self.compute.writeline(f"{largest} = {self._within(higher, largest, value)}")
        with self.writing_to(self.post_loop_combine):
            return self._softmax_of_lanes(largest, total)

    def _softmax_of_lanes(self, largest: CSEVariable, total: CSEVariable) -> tuple[CSEVariable, ...]:
        highest = self._meet("max", largest, torch.float32)
        base = self._generate(f'tl.where({highest} == float("-inf"), 0.0, {highest})', torch.float32, highest.shape)
        base_wide = self.expanded(base, self.axes_of(largest.shape))
        summed = self._generate(f"{total} * tl.exp({largest} - {base_wide})", torch.float32, largest.shape)
        return highest, self._meet("sum", summed, torch.float32)

    # -- tiles that reach beyond the row ------------------------------------------------------------------------------

    def reduced_axes(self, value: CSEVariable) -> tuple[str, ...]:
        """The axes of `value` and all reduced axes of the tile."""
        reduced = {axis for axis in self.tile.order if self.axis_of[axis].is_reduction}
        return self.in_tile_order({*self.axes_of(value.shape), *reduced})

    def reduced_mask(self, value: CSEVariable) -> str:
        """The part of a tile inside the reduced axes; empty if that is all of it."""
        axes = [axis for axis in self.axes_of(value.shape) if self.axis_of[axis].is_reduction and self.needs_mask(axis)]
        return " & ".join(self._mask_of_reduced(axis, value) for axis in axes)

    def _mask_of_reduced(self, axis: str, value: CSEVariable) -> str:
        """The part of `axis` that exists, as a condition for selections in a tile with the shape of `value`.

        The indices of a short axis are fewer than Ascend's compiler compares at once, and it compares before it
        broadcasts: the positions of all the tile are compared then.
        """
        axes = self.axes_of(value.shape)
        if len(axes) == 1 or self.max_block(axis) >= limits.WHOLE_COMPARISON // 2:
            return self.mask_text_of(axis, axes)
        inner = " * ".join(self.shape_of(axes[axes.index(axis) + 1 :])) or "1"
        count = f"{axis}numel - {axis}offset" if axis in self.tile.loops else f"{axis}numel"
        return f"device_functions.first_along({value}, {count}, {self.block(axis)}, {inner})"

    def padded(self, value: CSEVariable, identity: float) -> CSEVariable:
        """`value`, with `identity` beyond the end of the reduced axes."""
        mask = self.reduced_mask(value)
        if not mask or self.fillings.fill(value, identity):
            return value
        return self._generate(f"tl.where({mask}, {value}, {constant_repr(identity)})", value.dtype, value.shape)

    def padded_later(self, line: str, address: Address, has_other: bool) -> Any:
        """A load whose filling beyond the row is chosen by the first reduction that wants one.

        One that knows only some of the reduced axes has its own values beyond the end of the others: no filling.
        """
        reduced = {axis for axis in self.tile.order if self.axis_of[axis].is_reduction and self.needs_mask(axis)}
        fillable = reduced and reduced <= set(address.axes) and not has_other
        return self.fillings.load(line) if fillable else line

    # -- writing ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing_to(self, buffer: IndentedBuffer) -> Iterator[None]:
        """Operators write to `buffer` meanwhile."""
        compute, self.compute = self.compute, buffer
        try:
            yield
        finally:
            self.compute = compute

    def _after_loops(self) -> contextlib.AbstractContextManager[None]:
        """Operators write behind the loops over reduced axes meanwhile, if there are any."""
        return self.writing_to(self.post_loop_combine) if self.tile.loops else contextlib.nullcontext()

    def _in_type(self, value: CSEVariable, dtype: torch.dtype) -> CSEVariable:
        """`value` as `dtype`, from what it was before it was widened if it was."""
        source = value.narrow or value
        if value.dtype == dtype or source.dtype == dtype:
            return value if value.dtype == dtype else source
        result = self._generate(f"{source}.to({triton_compute_type(dtype)})", dtype, value.shape)
        take_filling(result, value)
        return result

    def _generate(self, text: str, dtype: Any, shape: Any) -> CSEVariable:
        return self.cse.generate(self.compute, text, dtype=dtype, shape=shape)

    def _accumulator(self, shape: Any, dtype: torch.dtype, initial: float, triton_dtype: str) -> CSEVariable:
        name = f"_{self.cse.newvar(dtype=dtype, shape=shape)}"
        self.body.writeline(
            f"{name} = tl.full([{', '.join(map(str, shape))}], {constant_repr(initial)}, {triton_dtype})"
        )
        return self.create_cse_var(name, ValueRanges.unknown(), dtype, shape)

    def _within(self, updated: Any, old: Any, value: CSEVariable) -> str:
        """`updated` inside the reduced axes, `old` beyond their end."""
        mask = self.reduced_mask(value)
        return f"tl.where({mask}, {updated}, {old})" if mask else str(updated)


def _in_float32(value: CSEVariable) -> CSEVariable:
    """Sums and comparisons of 16-bit floats are made in 32 bits."""
    if value.dtype in (torch.float16, torch.bfloat16):
        return OpsWrapper._unwrap(ops.to_dtype(value, torch.float32))
    return value


def _in_bits_of(value: CSEVariable, dtype: torch.dtype) -> CSEVariable:
    """An integer of fewer bits than `dtype` as one of it: sums wrap in its bits, and its extremes are what stands
    beyond the end of a row. An index of int32 is handed over for one of int64 by torch 2.11, which has no `value_expr`.
    """
    if value.dtype is None or value.dtype.is_floating_point or torch.bool in (dtype, value.dtype):
        return value
    if dtype.is_floating_point or value.dtype.itemsize >= dtype.itemsize:
        return value
    return OpsWrapper._unwrap(ops.to_dtype(value, dtype))

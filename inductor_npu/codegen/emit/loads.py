"""Loads of a tile, in the forms of the plan, and the operations that bring them into the order of the tile."""

from __future__ import annotations

import math

import sympy
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.triton import TritonCSEVariable, should_unwrap_unspec_arg
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.access_forms import Direct, Indexed
from inductor_npu.codegen.analysis.strided_ranges import fills_bursts
from inductor_npu.codegen.analysis.tiled_axes import AxisNames
from inductor_npu.codegen.emit.addresses import Address, Addresses
from inductor_npu.codegen.emit.gather_by_index import IndexedGatherer
from inductor_npu.codegen.emit.masked_lanes import masked_value_text, take_masked_value
from inductor_npu.codegen.emit.on_chip_gather import Gatherer, RangeAccess
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.providers import current_target


class Loader:
    """Writes the loads of `kernel`."""

    def __init__(
        self,
        kernel: TileKernel,
        rows: Rows,
        addresses: Addresses,
        positions: Positions,
        gatherer: Gatherer,
        indexed: IndexedGatherer,
    ) -> None:
        self.kernel, self.rows, self.addresses, self.positions = kernel, rows, addresses, positions
        self.gatherer, self.indexed = gatherer, indexed

    def load(self, name: str, index: sympy.Expr) -> TritonCSEVariable:
        """Writes a load of the buffer `name` in the form that the plan has for it; returns the value in the tile's
        order.

        `index` is the address, in elements, in Inductor's index variables. The access has its contiguous axis last; the
        value has the dtype in which it is computed, float32 for half floats.
        """
        pointer = self.kernel.args.input(name)
        dtype = V.graph.get_dtype(name)
        if should_unwrap_unspec_arg(name):
            wide = dtype in (torch.float16, torch.bfloat16)
            return self.kernel.cse.generate(
                self.kernel.loads, pointer, dtype=torch.float32 if wide else dtype, shape=()
            )
        form = self.kernel.form
        if not isinstance(form, Direct):
            ranged = self.indexed.indexed_load(form) if isinstance(form, Indexed) else self.gatherer.strided_load(form)
            return self._load_range(pointer, index, dtype, ranged)
        address = self.addresses.address_of(form)
        mask = self.addresses.mask_text(address.axes, form.predicate)
        line = f"tl.load({pointer} + ({address.text}), {mask}"
        other = ""
        if mask != "None" and self.kernel._load_mask is not None:
            other = f", other={masked_value_text(self.kernel._load_other, dtype)}"
        buffer = self._buffer_of(address, index)
        line += f"{other}{self._cache_hint(name)})"
        text = self.rows.padded_later(line, address, bool(other))
        raw = self.kernel.cse.generate(buffer, text, dtype=dtype, shape=self.kernel.shape_of(address.axes))
        self.kernel.masked_lanes.loaded(raw)
        value = self._computable(raw, dtype, buffer)
        value = self.in_tile_order(value, address.axes, buffer)
        value.in_memory = (raw, address.axes)
        if self.kernel._load_mask is not None and form.predicate == self.kernel.load_predicate:
            value.limited_to = self.kernel._load_mask
        take_masked_value(value, raw)
        if buffer is self.kernel.body or not self.kernel.inside_reduction:
            self.kernel.outside_loop_vars.update((raw, value))
        return value

    def _load_range(
        self, pointer: str, index: sympy.Expr, dtype: torch.dtype, ranged: RangeAccess
    ) -> TritonCSEVariable:
        """A load of a range of memory, from which the tile's elements are gathered on chip."""
        whole = Address(ranged.address, ranged.axes, indirect=ranged.indirect)
        buffer = self._buffer_of(whole, index)
        other = f", other={masked_value_text(self.kernel._load_other, dtype)}" if ranged.is_limited else ""
        line = f"tl.load({pointer} + ({ranged.address}), {ranged.mask}{other})"
        if ranged.fills and self.kernel._load_mask is None:
            line = self.rows.padded_later(line, whole, False)
        raw = self.kernel.cse.generate(buffer, line, dtype=dtype, shape=ranged.shape)
        self.kernel.masked_lanes.loaded(raw)
        shape = self.kernel.shape_of(ranged.axes)
        text = ranged.picked_text(f"{raw}.to(tl.float32)" if ranged.is_wide else str(raw))
        text = f"tl.reshape({text}, [{', '.join(shape)}])" if len(shape) > 1 else text
        text = f"{text} != 0.0" if ranged.is_wide and dtype == torch.bool else text
        is_computable = ranged.is_wide and dtype != torch.bool
        picked = self.kernel.cse.generate(buffer, text, dtype=torch.float32 if is_computable else dtype, shape=shape)
        take_masked_value(picked, raw)
        value = picked if ranged.is_wide else self._computable(picked, dtype, buffer)
        take_masked_value(value, picked)
        if ranged.is_limited:
            value.limited_to = self.kernel._load_mask
        if buffer is self.kernel.body or not self.kernel.inside_reduction:
            self.kernel.outside_loop_vars.update((raw, picked, value))
        return value

    def _cache_hint(self, name: str) -> str:
        """L2 need not keep what passes through it and is larger; what stays there is found again by the next call."""
        chip = current_target()
        if not chip.hints_eviction or name not in self.kernel.plan.passing:
            return ""
        size = V.graph.get_numel(name) * V.graph.get_dtype(name).itemsize
        return ", eviction_policy='evict_first'" if V.graph.sizevars.statically_known_gt(size, chip.l2) else ""

    def _buffer_of(self, address: Address, index: sympy.Expr) -> IndentedBuffer:
        """Where a load belongs: after the values that it needs, and before a loop that it does not depend on."""
        if address.indirect or self.kernel._load_mask is not None:
            return self.kernel.compute
        used = self.kernel.simplify_indexing(index).free_symbols
        in_loop = any(self.kernel.axis_of[axis].symbol in used for axis in self.kernel.tile.loops)
        return (
            self.kernel.loads
            if in_loop or not self.kernel.tile.loops or not self.kernel.inside_reduction
            else self.kernel.body
        )

    def _computable(self, value: CSEVariable, dtype: torch.dtype, buffer: IndentedBuffer) -> TritonCSEVariable:
        """The loaded value in the dtype in which it is computed."""
        if dtype in (torch.float16, torch.bfloat16) and inductor_config.triton.codegen_upcast_to_fp32:
            return self.kernel.cse.generate(buffer, f"{value}.to(tl.float32)", dtype=torch.float32, shape=value.shape)
        if dtype == torch.bool:  # a load from an int1 pointer gives int8
            # Ascend's compiler compares that with 0 in 16 bits, 128 elements at a time; short tiles are compared in 32.
            axes = self.kernel.axes_of(value.shape)
            is_short = 1 < math.prod(map(self.kernel.max_block, axes)) < current_target().compared_at_once(2)
            text = f"{value}.to(tl.float32) != 0.0" if is_short else f"{value}.to(tl.int1)"
            return self.kernel.cse.generate(buffer, text, dtype=torch.bool, shape=value.shape)
        return value

    def in_tile_order(self, value: CSEVariable, axes: AxisNames, buffer: IndentedBuffer) -> TritonCSEVariable:
        """`value`, whose dimensions are `axes`, with these in the order of the tile."""
        order = self.kernel.in_tile_order(axes)
        if order == axes:
            return value
        if len(order) == 2 and not fills_bursts(self.kernel.max_block(order[-1]), 4):
            # In a transpose each of its elements would take a block of the Unified Buffer.
            sizes = dict(zip(order, self.kernel.shape_of(order), strict=True))
            place = " + ".join(
                (self.positions.counted(axes[1], sizes), f"{self.positions.counted(axes[0], sizes)} * {sizes[axes[1]]}")
            )
            text = f"device_functions.gather({value}, {self.positions.hoisted('place', place)})"
            text = f"tl.reshape({text}, [{', '.join(sizes.values())}])"
        else:
            text = f"tl.permute({value}, {[axes.index(axis) for axis in order]})"
        return self.kernel.cse.generate(buffer, text, dtype=value.dtype, shape=self.kernel.shape_of(order))

"""One Triton kernel in the shape of an NPU: a fixed grid, a loop over tiles, addresses that are affine in each axis.

    for tile in range(tl.program_id(0), y_tiles * x_tiles, tl.num_programs(0)):
        y = (tile // x_tiles) * YBLOCK + tl.arange(0, YBLOCK)
        x = (tile % x_tiles) * XBLOCK + tl.arange(0, XBLOCK)
        tmp0 = tl.load(in_ptr0 + (x[None, :] + 512 * y[:, None]), ymask[:, None] & xmask[None, :])
        ...

`axes` says which axes there are, `tiling.plan` how they are tiled; this file writes it down.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.triton import TritonCSEVariable, should_unwrap_unspec_arg, triton_type
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis import predicates
from inductor_npu.codegen.analysis.access_forms import Direct, Indexed, Strided
from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.predicates import Conditions
from inductor_npu.codegen.analysis.strided_ranges import fills_bursts
from inductor_npu.codegen.analysis.wide_addresses import WideAddresses, may_be_in
from inductor_npu.codegen.emit import header
from inductor_npu.codegen.emit.addresses import Address, Addresses
from inductor_npu.codegen.emit.emitted import Tiled
from inductor_npu.codegen.emit.gather_by_index import IndexedGatherer
from inductor_npu.codegen.emit.masked_lanes import filling_text, take_filling
from inductor_npu.codegen.emit.on_chip_gather import Gatherer, SpanAccess
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.reductions import Reducer
from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.scans import Scanner
from inductor_npu.codegen.emit.tile_kernel import AxisNames, TileKernel
from inductor_npu.codegen.emit.tile_ops import TileOps
from inductor_npu.codegen.emit.tile_overrides import TileOverrides
from inductor_npu.codegen.index.vector_text import CannotEmit
from inductor_npu.providers import current_target


class NpuKernel(TileKernel):
    """The whole kernel: how tiles are loaded and stored, and the loops around them."""

    overrides = TileOverrides

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.addresses = Addresses(self)
        self.positions = Positions(self)
        self.rows = Rows(self, self.addresses)
        self.reducer = Reducer(self, self.rows, self.addresses)
        self.scanner = Scanner(self, self.rows, self.addresses)
        self.gatherer = Gatherer(self, self.addresses, self.positions)
        self.indexed = IndexedGatherer(self, self.addresses, self.positions)

    def __enter__(self) -> NpuKernel:
        super().__enter__()
        assert self.overrides is not None
        operators = TileOps(self, self.overrides(), self.addresses, self.positions)
        self.exit_stack.enter_context(V.set_ops_handler(operators))
        nodes = self.features.scheduler_nodes()
        if may_be_in(nodes):
            self.exit_stack.enter_context(V.set_ops_handler(WideAddresses(V.get_ops_handler(), nodes, self.axes)))
        if predicates.are_in(self.features):
            self.exit_stack.enter_context(V.set_ops_handler(Conditions(V.get_ops_handler(), self.known)))
        return self

    # -- what others write --------------------------------------------------------------------------------------------

    def reduction(self, *args: Any, **kwargs: Any) -> Any:
        return self.reducer.reduction(*args, **kwargs)

    def scan(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.scan(*args, **kwargs)

    def sort(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.sort(*args, **kwargs)

    def bucketize(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.bucketize(*args, **kwargs)

    def load(self, name: str, index: sympy.Expr) -> TritonCSEVariable:
        """A load with its contiguous axis last, brought into the tile's order on chip."""
        pointer = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if should_unwrap_unspec_arg(name):
            wide = dtype in (torch.float16, torch.bfloat16)
            return self.cse.generate(self.loads, pointer, dtype=torch.float32 if wide else dtype, shape=())
        form = self.form
        if not isinstance(form, Direct):
            ranged = self.indexed.indexed_load(form) if isinstance(form, Indexed) else self.gatherer.strided_load(form)
            return self._load_span(pointer, index, dtype, ranged)
        address = self.addresses.address_of(form)
        mask = self.addresses.mask_text(address.axes, form.predicate)
        line = f"tl.load({pointer} + ({address.text}), {mask}"
        other = ""
        if mask != "None" and self._load_mask is not None:
            other = f", other={filling_text(self._load_other, dtype)}"
        buffer = self._buffer_of(address, index)
        text = self.rows.padded_later(f"{line}{other})", address, bool(other))
        raw = self.cse.generate(buffer, text, dtype=dtype, shape=self.shape_of(address.axes))
        self.fillings.loaded(raw)
        value = self._computable(raw, dtype, buffer)
        value = self._to_tile_order(value, address.axes, buffer)
        if self._load_mask is not None and form.predicate == self.load_predicate:
            value.limited_to = self._load_mask
        take_filling(value, raw)
        if buffer is self.body or not self.inside_reduction:
            self.outside_loop_vars.update((raw, value))
        return value

    def _load_span(self, pointer: str, index: sympy.Expr, dtype: torch.dtype, span: SpanAccess) -> TritonCSEVariable:
        """A load of a span of memory, of which the tile's elements are picked on chip."""
        whole = Address(span.address, span.axes, indirect=span.indirect)
        buffer = self._buffer_of(whole, index)
        other = f", other={filling_text(self._load_other, dtype)}" if span.is_limited else ""
        line = f"tl.load({pointer} + ({span.address}), {span.mask}{other})"
        if span.fills and self._load_mask is None:
            line = self.rows.padded_later(line, whole, False)
        raw = self.cse.generate(buffer, line, dtype=dtype, shape=span.shape)
        self.fillings.loaded(raw)
        shape = self.shape_of(span.axes)
        text = f"device_functions.gather({raw}{'.to(tl.float32)' if span.is_wide else ''}, {span.place})"
        text = f"tl.reshape({text}, [{', '.join(shape)}])" if len(shape) > 1 else text
        text = f"{text} != 0.0" if span.is_wide and dtype == torch.bool else text
        is_computable = span.is_wide and dtype != torch.bool
        picked = self.cse.generate(buffer, text, dtype=torch.float32 if is_computable else dtype, shape=shape)
        take_filling(picked, raw)
        value = picked if span.is_wide else self._computable(picked, dtype, buffer)
        take_filling(value, picked)
        if span.is_limited:
            value.limited_to = self._load_mask
        if buffer is self.body or not self.inside_reduction:
            self.outside_loop_vars.update((raw, picked, value))
        return value

    def _buffer_of(self, address: Address, index: sympy.Expr) -> IndentedBuffer:
        """Where a load belongs: after the values that it needs, and before a loop that it does not depend on."""
        if address.indirect or self._load_mask is not None:
            return self.compute
        used = self.simplify_indexing(index).free_symbols
        in_loop = any(self.axis_of[axis].symbol in used for axis in self.tile.loops)
        return self.loads if in_loop or not self.tile.loops or not self.inside_reduction else self.body

    def _computable(self, value: CSEVariable, dtype: torch.dtype, buffer: IndentedBuffer) -> TritonCSEVariable:
        """The loaded value in the type in which it is computed."""
        if dtype in (torch.float16, torch.bfloat16) and inductor_config.triton.codegen_upcast_to_fp32:
            return self.cse.generate(buffer, f"{value}.to(tl.float32)", dtype=torch.float32, shape=value.shape)
        if dtype == torch.bool:  # a load from a pointer to int1 gives int8
            # which Ascend's compiler compares with 0 in 16 bits, 128 elements at a time: short tiles in 32 bits
            axes = self.axes_of(value.shape)
            is_short = 1 < math.prod(map(self.max_block, axes)) < current_target().compared_at_once(2)
            text = f"{value}.to(tl.float32) != 0.0" if is_short else f"{value}.to(tl.int1)"
            return self.cse.generate(buffer, text, dtype=torch.bool, shape=value.shape)
        return value

    def _to_tile_order(self, value: CSEVariable, axes: AxisNames, buffer: IndentedBuffer) -> TritonCSEVariable:
        order = self.in_tile_order(axes)
        if order == axes:
            return value
        if len(order) == 2 and not fills_bursts(self.max_block(order[-1]), 4):
            # Turned, each of its elements would have a block of the Unified Buffer.
            sizes = dict(zip(order, self.shape_of(order), strict=True))
            place = " + ".join(
                (self.positions.counted(axes[1], sizes), f"{self.positions.counted(axes[0], sizes)} * {sizes[axes[1]]}")
            )
            text = f"device_functions.gather({value}, {self.positions.hoisted('place', place)})"
            text = f"tl.reshape({text}, [{', '.join(sizes.values())}])"
        else:
            text = f"tl.permute({value}, {[axes.index(axis) for axis in order]})"
        return self.cse.generate(buffer, text, dtype=value.dtype, shape=self.shape_of(order))

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        """A store with its contiguous axis last; the value is turned on chip."""
        axes = self.form.axes
        if mode == "atomic_add":  # also along axes on which neither depends, once for each element of the loops
            value = self.broadcast(value, self._looped_axes({*self.axes_of(value.shape), *axes}), self.compute)
        for axis in reversed([axis for axis in self.axes_of(value.shape) if axis not in axes]):
            if mode != "atomic_add":
                raise CannotEmit(f"a store to {name} at {index} of a value that differs along {axis}")
            value = self.reducer.sum_along(value, axis)  # one sum instead of many additions to one address
        value = self.broadcast(value, self.in_tile_order(axes), self.compute)
        arguments = self._store_arguments(name, value, self.addresses.is_last_text(name))
        if mode is None:
            line = f"tl.store({arguments})"
        elif mode == "atomic_add":
            self.atomic_add_found = True
            line = f"tl.atomic_add({arguments}, sem='relaxed')"
        else:
            raise CannotEmit(f"store mode {mode}")
        self.stores.writeline(DeferredLine(name, line))
        if not self.inside_reduction:
            self.outside_loop_vars.add(value)

    def _looped_axes(self, own: Collection[str]) -> AxisNames:
        """`own`, and the other axes of the loops around what is written, as far as tiles have several elements."""
        axes = {axis.prefix for axis in self.axis_of.values() if self.inside_reduction or not axis.is_reduction}
        return self.in_tile_order({*own, *(axis for axis in axes if self.max_block(axis) > 1)})

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        buffer = self.post_loop_combine if self.tile.loops else self.compute
        value = self.broadcast(value, self.in_tile_order(self.form.axes), buffer)
        line = f"tl.store({self._store_arguments(name, value)})"
        self.post_loop_store.writeline(DeferredLine(name, line))

    def _store_arguments(self, name: str, value: CSEVariable, conditions: Sequence[str] = ()) -> str:
        """Pointer, value and mask of a store under scalar `conditions`; the value has all axes of the address, in the
        tile's order.
        """
        pointer = self.args.output(name)
        if isinstance(self.form, Strided):
            span = self.gatherer.strided_store(self.form)
            text = f"device_functions.gather({self._wide(value) if span.is_wide else value}, {span.place})"
            text = f"tl.reshape({text}, [{', '.join(span.shape)}])" if len(span.shape) > 1 else text
            text = _narrowed(text, value.dtype) if span.is_wide else text
            return f"{pointer} + ({span.address}), {text}, {span.mask}"
        assert isinstance(self.form, Direct), "a store by loaded indices is one of elements"
        address = self.addresses.address_of(self.form)
        text = self.addresses.in_order(value, address.axes)
        mask = " & ".join(
            [part for part in (self.addresses.mask_text(address.axes),) if part != "None"] + [*conditions]
        )
        return f"{pointer} + ({address.text}), {text}, {mask or 'None'}"

    def _wide(self, value: CSEVariable) -> str:
        """`value`, of a type of less than 32 bits or to be stored in one, in 32 bits."""
        value = value.wide or value
        if value.dtype == torch.int64:
            return f"{value}.to(tl.int32)"
        return f"{value}" if value.dtype in (torch.float32, torch.int32) else f"{value}.to(tl.float32)"

    def codegen_body(self) -> None:
        """Moves what was written since the last call to the body, inside loops over the looped reduced axes."""
        buffers = (self.indexing_code, self.loads, self.compute, self.stores)
        after = (self.post_loop_combine, self.post_loop_store)
        if not any((*buffers, *after)):
            return
        loops = self.tile.loops if self.inside_reduction else ()
        for level, axis in enumerate(loops):
            with self.body.indent(offset=level):
                self._write_loop(axis)
        with self.body.indent(offset=len(loops)):
            for buffer in buffers:
                self.body.splice(buffer)
        if loops:
            self.cse.invalidate(self.outside_loop_vars)
        for buffer in after:
            self.body.splice(buffer)
        for buffer in (*buffers, *after):
            buffer.clear()

    def _write_loop(self, prefix: str) -> None:
        symbol = self.axis_of[prefix].symbol
        cast = self.index_cast
        if prefix not in self.tile.blocks:
            self.body.writeline(f"for {symbol} in range(0, {prefix}numel):")
            return
        self.body.writeline(f"for {prefix}offset in range(0, {prefix}numel, {self.block(prefix)}):")
        with self.body.indent():
            self.body.writeline(f"{symbol} = {prefix}offset + tl.arange(0, {self.block(prefix)}){cast}")
            if self.needs_mask(prefix):
                self.body.writeline(f"{prefix}mask = {symbol} < {prefix}numel")

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        """Lengths that are known, then the loop over tiles around the body."""
        body = IndentedBuffer()
        self.write_lengths(body)
        body.splice(self.positions.before_tiles)
        indices = IndentedBuffer()
        tiles = self._write_tile_indices(body, indices)
        loop = self.loop_over_tiles(tiles)
        if loop:
            body.writeline(loop)
        with body.indent(offset=int(bool(loop))):
            body.splice(indices)
            body.splice(self.body)
        self.body = header.listed(self.plan, self.cse.varname_map, body)

    def write_lengths(self, before: IndentedBuffer) -> None:
        """Writes the lengths of axes and blocks that are no arguments."""
        for axis in self.axis_of.values():
            if axis.is_reduction and not self.features.is_reduction():
                continue
            if isinstance(axis.length, (int, sympy.Integer)):
                before.writeline(f"{axis.prefix}numel = {int(axis.length)}")
            if axis.prefix in self.tile.blocks and self.block(axis.prefix) not in self.arguments_for_blocks:
                before.writeline(f"{self.block(axis.prefix)}: tl.constexpr = {self.tile.blocks[axis.prefix]}")

    def loop_over_tiles(self, tiles: str) -> str:
        """The loop over the tiles of a program; empty where there is one tile, and so one program."""
        return f"for tile in range(tl.program_id(0){self.index_cast}, {tiles}, tl.num_programs(0)):" if tiles else ""

    def _write_tile_indices(self, before: IndentedBuffer, inside: IndentedBuffer) -> str:
        """Writes what the tile's number says of each axis; returns the number of tiles, empty for one tile in all."""
        cast = self.index_cast
        counts: list[str] = []
        divisors: list[tuple[Axis, str, str]] = []
        for axis in reversed(self.tiled_axes()):
            count = f"{axis.prefix}numel"
            if axis.prefix in self.tile.blocks:
                count = f"{axis.prefix.rstrip('_')}_tiles"
                before.writeline(f"{count} = tl.cdiv({axis.prefix}numel, {self.block(axis.prefix)})")
            inner = " * ".join(counts)
            divisors.append((axis, count, f"({inner})" if len(counts) > 1 else inner))
            counts.append(count)
        for position, (axis, count, inner) in enumerate(divisors):
            number = f"tile // {inner}" if inner else "tile"
            if position < len(divisors) - 1:
                number = f"({number}) % {count}" if inner else f"{number} % {count}"
            if axis.prefix not in self.tile.blocks:
                inside.writeline(f"{axis.symbol} = {number}")
                continue
            block = self.block(axis.prefix)
            offset = f"{number} * {block}" if number == "tile" else f"({number}) * {block}"
            if axis.prefix in self.positions.blocks_with_offsets:
                inside.writeline(f"{axis.prefix}offset = {offset}")
                offset = f"{axis.prefix}offset"
            inside.writeline(f"{axis.symbol} = {offset} + tl.arange(0, {block}){cast}")
            if self.needs_mask(axis.prefix):
                inside.writeline(f"{axis.prefix}mask = {axis.symbol} < {axis.prefix}numel")
        for axis in self.axis_of.values():
            if self.is_whole(axis.prefix):
                inside.writeline(f"{axis.symbol} = tl.arange(0, {self.block(axis.prefix)}){cast}")
                if self.needs_mask(axis.prefix):
                    inside.writeline(f"{axis.prefix}mask = {axis.symbol} < {axis.prefix}numel")
        return " * ".join(counts)

    @property
    def arguments_for_blocks(self) -> dict[str, int]:
        return {self.block(axis): size for axis, size in self.tile.blocks.items() if not self.is_whole(axis)}

    def tiled_axes(self) -> list[Axis]:
        """The axes of which a tile has a part: their blocks make the number of tiles."""
        return [axis for axis in self.axes.pointwise if not self.is_whole(axis.prefix)]

    def tiled(self) -> list[Tiled]:
        blocks = {axis: self.block(axis) for axis in self.tile.blocks}
        return [[(f"{axis.prefix}numel", blocks.get(axis.prefix)) for axis in self.tiled_axes()]]

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        index, predicate = self.prepare_indexing(expr), self.load_predicate
        if predicate is not None:
            index = predicate.without_divisions(index, self.axes.lengths)
        loaded = (self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP))
        depends = self.union_of_axes([value.shape for value in loaded])
        masked = self.axes_of(self._load_mask.shape) if self._load_mask is not None else ()
        form = self.plan.access_forms.direct(index, depends, masked, predicate, size)
        address = self.addresses.address_of(form)
        mask = self.addresses.mask_text(address.axes, predicate)
        limit = self.index_to_str(size) if upper else None
        line = self.indirect_assert(address.text, "0" if lower else None, limit, None if mask == "None" else mask)
        self.cse.generate(self.compute, line, assignment=False, dtype=torch.int32)


def _narrowed(wide: str, dtype: torch.dtype | None) -> str:
    """Text of a value of type `dtype`, from the text of the same in 32 bits."""
    if dtype == torch.bool:
        return f"({wide} != 0.0)"
    if dtype in (torch.int8, torch.uint8):
        return f"device_functions.to_byte({wide}, {triton_type(dtype)})"
    return f"{wide}.to(tl.int32).to(tl.int16)" if dtype == torch.int16 else wide

"""One Triton kernel in the form of an NPU: a fixed grid, a loop over tiles, addresses that are affine in each axis.

    for tile in range(tl.program_id(0), y_tiles * x_tiles, tl.num_programs(0)):
        y = (tile // x_tiles) * YBLOCK + tl.arange(0, YBLOCK)
        x = (tile % x_tiles) * XBLOCK + tl.arange(0, XBLOCK)
        tmp0 = tl.load(in_ptr0 + (x[None, :] + 512 * y[:, None]), ymask[:, None] & xmask[None, :])
        ...

`KernelPlan` has the axes, their tile and the form of each access; this file prints the loops around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis import predicates
from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.kernel_plan import TileGroups
from inductor_npu.codegen.analysis.predicates import PredicateFolding
from inductor_npu.codegen.analysis.wide_addresses import WideAddresses, may_be_in
from inductor_npu.codegen.emit import header
from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.contractions import Contractor, Product
from inductor_npu.codegen.emit.emitted import Tiled
from inductor_npu.codegen.emit.gather_by_index import IndexedGatherer
from inductor_npu.codegen.emit.loads import Loader
from inductor_npu.codegen.emit.on_chip_gather import Gatherer
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.reductions import Reducer
from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.scans import Scanner
from inductor_npu.codegen.emit.statements import Statements
from inductor_npu.codegen.emit.stores import Storer
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.codegen.emit.tile_ops import TileOps
from inductor_npu.codegen.emit.tile_overrides import TileOverrides


class NpuKernel(TileKernel):
    """The whole kernel: its operators, handed to those that write them, and the loops over tiles around them."""

    overrides = TileOverrides

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.addresses = Addresses(self)
        self.positions = Positions(self)
        self.rows = Rows(self, self.addresses)
        self.reducer = Reducer(self, self.rows, self.addresses)
        self.scanner = Scanner(self, self.rows, self.addresses)
        self.gatherer = Gatherer(self, self.addresses, self.positions)
        indexed = IndexedGatherer(self, self.addresses, self.positions)
        self.loader = Loader(self, self.rows, self.addresses, self.positions, self.gatherer, indexed)
        self.contractor = Contractor(self, self.loader)
        self.storer = Storer(self, self.reducer, self.addresses, self.gatherer)

    def __enter__(self) -> NpuKernel:
        super().__enter__()
        assert self.overrides is not None
        operators = TileOps(self, self.overrides(), self.addresses, self.positions)
        self.exit_stack.enter_context(V.set_ops_handler(operators))
        nodes = self.features.scheduler_nodes()
        if may_be_in(nodes):
            self.exit_stack.enter_context(V.set_ops_handler(WideAddresses(V.get_ops_handler(), nodes, self.axes)))
        if predicates.are_in(self.features):
            self.exit_stack.enter_context(V.set_ops_handler(PredicateFolding(V.get_ops_handler(), self.known)))
        return self

    # -- what others write --------------------------------------------------------------------------------------------

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        return self.loader.load(name, index)

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        self.storer.store(name, index, value, mode)

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        self.storer.store_reduction(name, index, value)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        if isinstance(value, Product):
            return self.contractor.contraction(dtype, value)
        return self.reducer.reduction(dtype, src_dtype, reduction_type, value)

    def scan(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.scan(*args, **kwargs)

    def sort(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.sort(*args, **kwargs)

    def bucketize(self, *args: Any, **kwargs: Any) -> Any:
        return self.scanner.bucketize(*args, **kwargs)

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
        """Writes the static lengths, then the loop over tiles around the body."""
        body = Statements()
        self.write_lengths(body)
        body.splice(self.positions.before_tiles)
        indices = Statements()
        tiles = self._write_tile_indices(body, indices)
        loop = self.loop_over_tiles(tiles)
        if loop:
            body.writeline(loop)
        with body.indent(offset=int(bool(loop))):
            body.splice(indices)
            body.splice(self.body)
        self.body = header.with_header(self.plan, body)

    def write_lengths(self, before: IndentedBuffer) -> None:
        """Writes the lengths of axes and blocks that are not arguments."""
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
        """Writes the indices of each axis, from the tile's number; returns the number of tiles as text, empty for a
        single tile.
        """
        cast = self.index_cast
        counts: dict[str, str] = {}
        for axis in reversed(self.tiled_axes()):
            counts[axis.prefix] = f"{axis.prefix}numel"
            if axis.prefix in self.tile.blocks:
                counts[axis.prefix] = f"{axis.prefix.rstrip('_')}_tiles"
                before.writeline(f"{counts[axis.prefix]} = tl.cdiv({axis.prefix}numel, {self.block(axis.prefix)})")
        numbers = self._tile_numbers(counts, inside)
        for axis in reversed(self.tiled_axes()):
            number = numbers[axis.prefix]
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
        return " * ".join(counts.values())

    def _tile_numbers(self, counts: Mapping[str, str], inside: IndentedBuffer) -> dict[str, str]:
        """Which part of each axis the tile is, as text. `counts` has the number of parts of each, the innermost axis
        first.
        """
        numbers: dict[str, str] = {}
        inner: list[str] = []
        for position, (prefix, count) in enumerate(counts.items()):
            divisor = f"({' * '.join(inner)})" if len(inner) > 1 else "".join(inner)
            number = f"tile // {divisor}" if divisor else "tile"
            if position < len(counts) - 1:
                number = f"({number}) % {count}" if divisor else f"{number} % {count}"
            numbers[prefix] = number
            inner.append(count)
        groups = self.plan.tile_groups
        if groups is not None:
            numbers |= self._tile_numbers_in_groups(groups, counts, inside)
        return numbers

    def _tile_numbers_in_groups(
        self, groups: TileGroups, counts: Mapping[str, str], inside: IndentedBuffer
    ) -> dict[str, str]:
        """The part of both axes of a product, whose tiles are numbered in `groups`; the last group may be smaller."""
        along, then = counts[groups.along], counts[groups.then]
        number = f"(tile % ({along} * {then}))" if len(counts) > 2 else "tile"
        inside.writeline(f"of_group = {number} % ({groups.size} * {then})")
        inside.writeline(f"first_of_group = {number} // ({groups.size} * {then}) * {groups.size}")
        inside.writeline(f"group = tl.minimum({along} - first_of_group, {groups.size})")
        return {groups.along: "first_of_group + of_group % group", groups.then: "of_group // group"}

    @property
    def arguments_for_blocks(self) -> dict[str, int]:
        return {self.block(axis): size for axis, size in self.tile.blocks.items() if not self.is_whole(axis)}

    def tiled_axes(self) -> list[Axis]:
        """The axes of which a tile has a part: their blocks decide the number of tiles."""
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

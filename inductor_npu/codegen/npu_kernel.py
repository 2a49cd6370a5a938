"""One Triton kernel in the shape of an NPU: a fixed grid, a loop over tiles, addresses that are affine in each axis.

    for tile in range(tl.program_id(0), y_tiles * x_tiles, tl.num_programs(0)):
        y = (tile // x_tiles) * YBLOCK + tl.arange(0, YBLOCK)
        x = (tile % x_tiles) * XBLOCK + tl.arange(0, XBLOCK)
        tmp0 = tl.load(in_ptr0 + (x[None, :] + 512 * y[:, None]), ymask[:, None] & xmask[None, :])
        ...

`axes` says which axes there are, `tiling.plan` how they are tiled; this file writes it down.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot, constant_repr
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import TritonCSEVariable, TritonKernel, triton_type
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import OpsWrapper, V, ops
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu import providers
from inductor_npu.codegen import listing, tile_ops
from inductor_npu.codegen.axes import Axes, Axis, affine
from inductor_npu.codegen.overrides import NpuKernelOverrides
from inductor_npu.codegen.padding import Paddings
from inductor_npu.codegen.reductions import Reductions
from inductor_npu.codegen.scans import Scans
from inductor_npu.codegen.tile_ops import Bounds, TileOps
from inductor_npu.tiling.grid import NpuGrid
from inductor_npu.tiling.plan import TilePlan

AxisNames = tuple[str, ...]


class TileOverrides(NpuKernelOverrides):
    """Operators whose text depends on the kernel's axes."""

    @classmethod
    def index_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        return V.kernel.index_value(expr, dtype)

    @classmethod
    def value_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index in exactly this type, computed in the kernel's type of indices."""
        index = V.kernel.index_value(expr, dtype)
        if index.dtype == dtype:
            return index
        value = V.kernel.cse.generate(
            V.kernel.compute, f"{index}.to({triton_type(dtype)})", dtype=dtype, shape=index.shape
        )
        V.kernel.copy_index(index, value)
        return value

    @staticmethod
    def masked(mask: CSEVariable, body: Any, other: Any) -> CSEVariable:
        """`body` where `mask` holds. Its loads are limited to there where the condition is one on indices."""
        kernel = V.kernel
        with kernel.mask_loads(mask, value=other) as within:
            result = OpsWrapper._unwrap(body())
        if kernel.is_limited_to(result, within):
            return result
        dtype = result.dtype
        filling = ops.constant(bool(other) if dtype == torch.bool else other, dtype)
        return OpsWrapper._unwrap(ops.where(within, result, filling))


class CannotEmit(NotImplementedError):
    """Something the kernel's loops do has no form with one block axis per loop variable."""


@dataclass(frozen=True)
class Address:
    """Where a tile lies in memory. `axes` are the dimensions of the access, in the order of memory: the contiguous one
    last. `text` and `mask` are Triton expressions of that shape.
    """

    text: str
    axes: AxisNames
    bounded: Bounds | None
    indirect: bool
    guard: str | None


class NpuKernel(Reductions, Scans, TritonKernel):
    """TritonKernel with one axis for each loop variable, tiled by `plan`.

    A value's `shape` names its axes' blocks in the order of the tile, and only those along which it differs.
    """

    overrides = TileOverrides  # type: ignore[assignment]

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        *,
        features: SIMDKernelFeatures,
        axes: Axes,
        plan: TilePlan,
        **kwargs: Any,
    ) -> None:
        self.axes = axes
        self.plan = plan
        self.axis_of = {axis.prefix: axis for axis in (*axes.pointwise, *axes.reduction)}
        self.bounds_of: dict[str, Bounds] = {}
        self.index_of: dict[str, sympy.Expr] = {}
        self.limited_loads: dict[str, tuple[str, Any]] = {}
        self.paddings = Paddings()
        kwargs["override_persistent_reduction"] = bool(axes.reduction) and plan.is_persistent
        kwargs["override_cooperative_reduction"] = False
        super().__init__(tiling, features=features, **kwargs)
        self.simplify_indexing = functools.cache(axes.simplify)

    def __enter__(self) -> NpuKernel:
        super().__enter__()
        assert self.overrides is not None
        self.exit_stack.enter_context(V.set_ops_handler(TileOps(self, self.overrides())))
        return self

    # -- axes and their blocks ----------------------------------------------------------------------------------------

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[IterationRangesRoot]:
        """One tree per axis, with the axis as its only entry."""
        trees = []
        for position, axis in enumerate(self.axis_of.values()):
            is_argument = axis.prefix in self.plan.blocks and not self.is_whole(axis.prefix)
            tree = IterationRangesRoot(
                f"{axis.prefix}index",
                axis.length,
                axis.prefix,
                position,
                self,  # type: ignore[arg-type]
                is_loop=axis.prefix in self.plan.loops,
                tensor_dim=self.plan.order.index(axis.prefix) if is_argument else None,
                grid_dim=None,
                has_zdim=False,
            )
            entry = IterationRangesEntry(str(axis.symbol), sympy.S.One, axis.length, axis.symbol, tree)
            entry.set_name(str(axis.symbol))
            tree.var_list.append(axis.symbol)
            tree.var_ranges[axis.symbol] = axis.length
            self.range_tree_nodes[axis.symbol] = entry
            trees.append(tree)
        return trees

    def codegen_range_tree(self) -> None:
        """Nothing: the axes are written around the finished body, see codegen_static_numels."""

    def codegen_reduction_numels(self, buffer: IndentedBuffer) -> None:
        """Nothing: reduced axes stay apart."""

    def split_and_set_ranges(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        return self.axes.index_variables(lengths)

    def is_whole(self, prefix: str) -> bool:
        """Whether a reduced axis is in the tile from its first to its last element."""
        return self.axis_of[prefix].is_reduction and prefix in self.plan.blocks and prefix not in self.plan.loops

    def needs_mask(self, prefix: str) -> bool:
        """Whether some tile reaches beyond the end of the axis."""
        return not V.graph.sizevars.statically_known_multiple_of(
            self.axis_of[prefix].length, sympy.Integer(self.plan.blocks[prefix])
        )

    def max_block(self, prefix: str) -> int:
        return self.plan.blocks.get(prefix, 1)

    def _has_constant_mask(self, tree: IterationRangesRoot) -> bool:
        return tree.prefix not in self.plan.blocks or not self.needs_mask(tree.prefix)

    def block(self, prefix: str) -> str:
        return f"{prefix.upper()}BLOCK"

    def shape_of(self, axes: Sequence[str]) -> AxisNames:
        return tuple(self.block(axis) for axis in axes)

    def in_tile_order(self, axes: Any) -> AxisNames:
        return tuple(axis for axis in self.plan.order if axis in axes)

    def axes_of(self, shape: Any) -> AxisNames:
        """The axes of a value, by its shape."""
        names = {str(size) for size in shape or ()}
        return tuple(axis for axis in self.plan.order if self.block(axis) in names)

    def union_of_axes(self, shapes: Sequence[Any]) -> AxisNames:
        return self.in_tile_order({axis for shape in shapes for axis in self.axes_of(shape)})

    def expanded(self, value: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """`value` with dimensions of length one where it lacks one of `axes` (those before its first need none)."""
        own = self.axes_of(value.shape)
        if not own or own == tuple(axes[len(axes) - len(own) :]):
            return value
        needed = axes[axes.index(own[0]) :]
        shape = tuple(self.block(axis) if axis in own else "1" for axis in needed)
        return tile_ops.copy_of(value, f"{value}{_subscript(own, needed)}", shape)

    def broadcast(self, value: CSEVariable, axes: Sequence[str], buffer: IndentedBuffer) -> CSEVariable:
        """`value` with all of `axes` as dimensions."""
        if self.axes_of(value.shape) == tuple(axes):
            return value
        shape = self.shape_of(axes)
        whole = f"{value}{_subscript(self.axes_of(value.shape), axes)}"
        text = f"tl.broadcast_to({whole}, [{', '.join(shape)}])"
        return self.cse.generate(buffer, text, dtype=value.dtype, shape=shape)

    # -- conditions on indices ----------------------------------------------------------------------------------------

    def tile_symbols(self) -> list[sympy.Symbol]:
        return [self.axis_of[axis].symbol for axis in self.plan.order]

    def axis_with(self, symbol: sympy.Symbol) -> Axis:
        return next(axis for axis in self.axis_of.values() if axis.symbol == symbol)

    def bounds_from(self, difference: sympy.Expr) -> Bounds | None:
        walked = [axis.symbol for axis in self.axis_of.values() if axis.prefix not in self.plan.order]
        return tile_ops.bounds_from(difference, self.tile_symbols(), walked)

    def bounds_text(self, bounds: Bounds, among: Sequence[str]) -> list[str]:
        """A condition for each bound of an axis in `among`, each of the shape of `among`."""
        conditions = []
        for symbol in bounds.symbols:
            axis = self.axis_with(symbol).prefix
            if axis not in among:
                continue
            index = f"{symbol}{_subscript((axis,), among)}"
            if symbol in bounds.low:
                conditions.append(f"({index} >= {self.index_to_str(bounds.low[symbol])})")
            if symbol in bounds.high:
                conditions.append(f"({index} < {self.index_to_str(bounds.high[symbol])})")
        return conditions

    def mask_of(self, bounds: Bounds) -> CSEVariable:
        """The condition as a value."""
        axes = self.in_tile_order({self.axis_with(symbol).prefix for symbol in bounds.symbols})
        text = " & ".join(self.bounds_text(bounds, axes))
        mask = self.cse.generate(self.compute, text, dtype=torch.bool, shape=self.shape_of(axes))
        self.bounds_of[str(mask)] = bounds
        return mask

    def is_limited_to(self, value: CSEVariable, mask: CSEVariable) -> bool:
        """Whether `value` is a load that has its filling wherever `mask` does not hold."""
        if self.limited_loads.get(str(value), (None,))[0] != str(mask):
            return False
        if not self.axes_of(mask.shape):
            return True
        bounds = self.bounds_of.get(str(mask))
        axes = self.axes_of(value.shape)
        return bounds is not None and bounds.exact and all(self.axis_with(s).prefix in axes for s in bounds.symbols)

    # -- addresses ----------------------------------------------------------------------------------------------------

    def address(self, index: sympy.Expr, size: sympy.Expr) -> Address:
        """Where `index` of a buffer with `size` elements lies, within the condition that holds at present."""
        index = self.prepare_indexing(index)
        own = {axis.prefix for axis in self.axis_of.values() if axis.symbol in index.free_symbols}
        loaded = [self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        axes = self.in_tile_order({*own, *(axis for value in loaded for axis in self.axes_of(value.shape))})
        strides = affine(index, self.tile_symbols()).strides
        for axis in axes:
            if strides.get(self.axis_of[axis].symbol) == 1:
                axes = (*(other for other in axes if other != axis), axis)
                break
        bounded = self.bounds_of.get(str(self._load_mask)) if self._load_mask else None
        guard = None
        unlimited = self._load_mask is not None and self.axes_of(self._load_mask.shape)
        if unlimited and not (bounded and bounded.exact) and not self._stays_inside(index, size, bounded):
            guard = str(self._load_mask)
            axes = (*self.in_tile_order({*self.axes_of(self._load_mask.shape)} - {*axes}), *axes)
        expanded = {
            self.axis_of[axis].symbol: sympy.Symbol(f"{self.axis_of[axis].symbol}{_subscript((axis,), axes)}")
            for axis in axes
        }
        for value in loaded:
            expanded[sympy.Symbol(str(value))] = sympy.Symbol(str(self._in_order(value, axes)))
        names = {symbol: new for symbol, new in expanded.items() if str(symbol) != str(new)}
        by_name = {str(symbol): new for symbol, new in names.items()}
        text = self.index_to_str(
            sympy_subs(index, {s: by_name[str(s)] for s in index.free_symbols if str(s) in by_name})
        )
        if guard is not None:
            text = f"tl.where({self._in_order(self._load_mask, axes)}, {text}, 0)"
        return Address(text, axes, bounded, bool(loaded), guard)

    def _in_order(self, value: CSEVariable, axes: Sequence[str]) -> str:
        """`value`, with dimensions for all of `axes`, whatever their order."""
        own = self.axes_of(value.shape)
        among = tuple(axis for axis in axes if axis in own)
        text = str(value)
        if among != own:
            text = f"tl.permute({text}, {[own.index(axis) for axis in among]})"
        return f"{text}{_subscript(among, axes)}"

    def _stays_inside(self, index: sympy.Expr, size: sympy.Expr, bounded: Bounds | None) -> bool:
        """Whether the address is inside the buffer even where the condition does not hold."""
        taken = affine(index, [axis.symbol for axis in self.axis_of.values()])
        if taken.nonlinear or not isinstance(taken.offset, sympy.Integer):
            return False
        lowest = highest = int(taken.offset)
        for symbol, stride in taken.strides.items():
            first, last = sympy.S.Zero, self.axis_with(symbol).length - 1
            if bounded is not None:
                first, last = bounded.low.get(symbol, first), bounded.high.get(symbol, last + 1) - 1
            if not all(isinstance(number, sympy.Integer) for number in (stride, first, last)):
                return False
            ends = int(stride) * int(first), int(stride) * int(last)
            lowest, highest = lowest + min(ends), highest + max(ends)
        return lowest >= 0 and V.graph.sizevars.statically_known_lt(sympy.Integer(highest), size)

    def mask_text_of(self, axis: str, axes: Sequence[str]) -> str:
        """The part of `axis` in the tile that exists, with the dimensions `axes`."""
        return f"{axis}mask{_subscript((axis,), axes)}"

    def mask_text(self, axes: Sequence[str], bounded: Bounds | None = None) -> str:
        """The part of a tile with dimensions `axes` that exists, and within `bounded`; "None" if that is all of it."""
        conditions = [self.mask_text_of(axis, axes) for axis in axes if self.needs_mask(axis)]
        if bounded is not None:
            conditions += self.bounds_text(bounded, axes)
        if self._load_mask is not None and not self.axes_of(self._load_mask.shape):
            conditions.append(str(self._load_mask))
        return " & ".join(conditions) or "None"

    # -- loads and stores ---------------------------------------------------------------------------------------------

    def load(self, name: str, index: sympy.Expr) -> TritonCSEVariable:
        """A load with its contiguous axis last, brought into the tile's order on chip."""
        pointer = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if _is_scalar_argument(name):
            wide = dtype in (torch.float16, torch.bfloat16)
            return self.cse.generate(self.loads, pointer, dtype=torch.float32 if wide else dtype, shape=())
        address = self.address(
            index, V.graph.get_buffer(name).get_layout().storage_size() if self._load_mask else index
        )
        mask = self.mask_text(address.axes, address.bounded)
        line = f"tl.load({pointer} + ({address.text}), {mask}"
        other = ""
        if mask != "None" and self._load_mask is not None:
            other = f", other={constant_repr(self._load_other or 0)}"
        buffer = self._buffer_of(address)
        text = self.padded_later(f"{line}{other})", address, bool(other))
        raw = self.cse.generate(buffer, text, dtype=dtype, shape=self.shape_of(address.axes))
        self.paddings.loaded(raw)
        value = self._computable(raw, dtype, buffer)
        value = self._to_tile_order(value, address.axes, buffer)
        if self._load_mask is not None:
            self.limited_loads[str(value)] = (str(self._load_mask), self._load_other)
        self.paddings.same(value, raw)
        if not self.inside_reduction or not {*address.axes, *self._walked(index)} & {*self.plan.loops}:
            self.outside_loop_vars.update((raw, value))
        return value

    def _walked(self, index: sympy.Expr) -> set[str]:
        return {
            axis.prefix for axis in self.axis_of.values() if axis.symbol in self.simplify_indexing(index).free_symbols
        }

    def _buffer_of(self, address: Address) -> IndentedBuffer:
        """Where a load belongs: after the values that it needs."""
        return self.compute if address.indirect or self._load_mask is not None else self.loads

    def _computable(self, value: CSEVariable, dtype: torch.dtype, buffer: IndentedBuffer) -> TritonCSEVariable:
        """The loaded value in the type in which it is computed."""
        if dtype in (torch.float16, torch.bfloat16) and inductor_config.triton.codegen_upcast_to_fp32:
            return self.cse.generate(buffer, f"{value}.to(tl.float32)", dtype=torch.float32, shape=value.shape)
        if dtype == torch.bool:  # a load from a pointer to int1 gives int8
            return self.cse.generate(buffer, f"{value}.to(tl.int1)", dtype=torch.bool, shape=value.shape)
        return value

    def _to_tile_order(self, value: CSEVariable, axes: AxisNames, buffer: IndentedBuffer) -> TritonCSEVariable:
        order = self.in_tile_order(axes)
        if order == axes:
            return value
        text = f"tl.permute({value}, {[axes.index(axis) for axis in order]})"
        return self.cse.generate(buffer, text, dtype=value.dtype, shape=self.shape_of(order))

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        """A store with its contiguous axis last; the value is turned on chip."""
        pointer = self.args.output(name)
        address = self.address(index, index)
        own = self.axes_of(value.shape)
        extra = [axis for axis in own if axis not in address.axes]
        if extra and mode != "atomic_add":
            raise CannotEmit(f"a store to {name} at {index} of a value that differs along {', '.join(extra)}")
        for axis in reversed(extra):  # one sum instead of many additions to one address
            value = self.sum_along(value, axis)
        value = self.broadcast(value, self.in_tile_order(address.axes), self.compute)
        text = str(value)
        order = self.in_tile_order(address.axes)
        if order != address.axes:
            text = f"tl.permute({text}, {[order.index(axis) for axis in address.axes]})"
        mask = self.mask_text(address.axes)
        if mode is None:
            line = f"tl.store({pointer} + ({address.text}), {text}, {mask})"
        elif mode == "atomic_add":
            self.atomic_add_found = True
            line = f"tl.atomic_add({pointer} + ({address.text}), {text}, {mask}, sem='relaxed')"
        else:
            raise CannotEmit(f"store mode {mode}")
        self.stores.writeline(DeferredLine(name, line))
        if not self.inside_reduction:
            self.outside_loop_vars.add(value)

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        pointer = self.args.output(name)
        address = self.address(index, index)
        order = self.in_tile_order(address.axes)
        value = self.broadcast(value, order, self.post_loop_combine if self.plan.loops else self.compute)
        text = str(value)
        if order != address.axes:
            text = f"tl.permute({text}, {[order.index(axis) for axis in address.axes]})"
        line = f"tl.store({pointer} + ({address.text}), {text}, {self.mask_text(address.axes)})"
        self.post_loop_store.writeline(DeferredLine(name, line))

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        address = self.address(expr, size)
        mask = self.mask_text(address.axes, address.bounded)
        limit = self.index_to_str(size) if upper else None
        line = self.indirect_assert(address.text, "0" if lower else None, limit, None if mask == "None" else mask)
        self.cse.generate(self.compute, line, assignment=False, dtype=torch.int32)

    def index_value(self, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index as a value, in the tile's order."""
        index = self.prepare_indexing(expr)
        names = [axis for axis in self.axis_of.values() if axis.symbol in index.free_symbols]
        loaded = [self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        axes = self.in_tile_order(
            {*(a.prefix for a in names), *(axis for value in loaded for axis in self.axes_of(value.shape))}
        )
        expanded = {
            a.symbol: sympy.Symbol(f"{a.symbol}{_subscript((a.prefix,), axes)}") for a in names if a.prefix in axes
        }
        for symbol in index.free_symbols:
            if symbol_is_type(symbol, SymT.TMP):
                expanded[symbol] = sympy.Symbol(str(self.expanded(self.cse.varname_map[str(symbol)], axes)))
        text = self.index_to_str(sympy_subs(index, expanded))
        if not axes:
            text = f"tl.full([], {text}, {self.index_dtype})"
        own_dtype = self.get_index_dtype_as_torch_dtype()
        if dtype not in (torch.int32, torch.int64, own_dtype):
            text, own_dtype = f"({text}).to({triton_type(dtype)})", dtype
        value = self.cse.generate(self.compute, text, dtype=own_dtype, shape=self.shape_of(axes))
        if not loaded:
            self.index_of[str(value)] = index
        return value

    def copy_index(self, index: CSEVariable, value: CSEVariable) -> None:
        """`value` is the index `index` in another integer type."""
        if str(index) in self.index_of and value.dtype in (torch.int32, torch.int64):
            self.index_of[str(value)] = self.index_of[str(index)]

    # -- the kernel around the body -----------------------------------------------------------------------------------

    def codegen_body(self) -> None:
        """Moves what was written since the last call to the body, inside loops over the looped reduced axes."""
        buffers = (self.indexing_code, self.loads, self.compute, self.stores)
        after = (self.post_loop_combine, self.post_loop_store)
        if not any((*buffers, *after)):
            return
        loops = self.plan.loops if self.inside_reduction else ()
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
        cast = "" if self.index_dtype == "tl.int32" else f".to({self.index_dtype})"
        if prefix not in self.plan.blocks:
            self.body.writeline(f"for {symbol} in range(0, {prefix}numel):")
            return
        self.body.writeline(f"for {prefix}offset in range(0, {prefix}numel, {self.block(prefix)}):")
        with self.body.indent():
            self.body.writeline(f"{symbol} = {prefix}offset + tl.arange(0, {self.block(prefix)}){cast}")
            if self.needs_mask(prefix):
                self.body.writeline(f"{prefix}mask = {symbol} < {prefix}numel")

    @property
    def add_persistent_rblock(self) -> bool:
        """Never: what a reduction keeps on chip is the plan's choice."""
        return False

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        """Lengths that are known, then the loop over tiles around the body."""
        body = IndentedBuffer()
        for axis in self.axis_of.values():
            if axis.is_reduction and not self.features.is_reduction():
                continue
            if isinstance(axis.length, (int, sympy.Integer)):
                body.writeline(f"{axis.prefix}numel = {int(axis.length)}")
            if self.is_whole(axis.prefix):
                body.writeline(f"{self.block(axis.prefix)}: tl.constexpr = {self.plan.blocks[axis.prefix]}")
        indices = IndentedBuffer()
        tiles = self._write_tile_indices(body, indices)
        if tiles:
            cast = "" if self.index_dtype == "tl.int32" else f".to({self.index_dtype})"
            body.writeline(f"for tile in range(tl.program_id(0){cast}, {tiles}, tl.num_programs(0)):")
        with body.indent(offset=int(bool(tiles))):
            body.splice(indices)
            body.splice(self.body)
        self.body = listing.listed(self, body)

    def _write_tile_indices(self, before: IndentedBuffer, inside: IndentedBuffer) -> str:
        """Writes what the tile's number says of each axis; returns the number of tiles."""
        cast = "" if self.index_dtype == "tl.int32" else f".to({self.index_dtype})"
        counts: list[str] = []
        divisors: list[tuple[Axis, str, str]] = []
        for axis in reversed(self.axes.pointwise):
            count = f"{axis.prefix}numel"
            if axis.prefix in self.plan.blocks:
                count = f"{axis.prefix}_tiles"
                before.writeline(f"{count} = tl.cdiv({axis.prefix}numel, {self.block(axis.prefix)})")
            inner = " * ".join(counts)
            divisors.append((axis, count, f"({inner})" if len(counts) > 1 else inner))
            counts.append(count)
        for position, (axis, count, inner) in enumerate(divisors):
            number = f"tile // {inner}" if inner else "tile"
            if position < len(divisors) - 1:
                number = f"({number}) % {count}" if inner else f"{number} % {count}"
            if axis.prefix not in self.plan.blocks:
                inside.writeline(f"{axis.symbol} = {number}")
                continue
            block = self.block(axis.prefix)
            offset = f"{number} * {block}" if number == "tile" else f"({number}) * {block}"
            inside.writeline(f"{axis.symbol} = {offset} + tl.arange(0, {block}){cast}")
            if self.needs_mask(axis.prefix):
                inside.writeline(f"{axis.prefix}mask = {axis.symbol} < {axis.prefix}numel")
        for axis in self.axes.reduction:
            if self.is_whole(axis.prefix):
                inside.writeline(f"{axis.symbol} = tl.arange(0, {self.block(axis.prefix)}){cast}")
                if self.needs_mask(axis.prefix):
                    inside.writeline(f"{axis.prefix}mask = {axis.symbol} < {axis.prefix}numel")
        return " * ".join(counts)

    def _get_grid_type(self) -> type[NpuGrid]:
        return NpuGrid

    @classmethod
    @functools.lru_cache(None)
    def gen_common_triton_imports(cls) -> str:
        """Inductor's imports, then ours: the name `triton_heuristics` in generated code means our block-size
        heuristics.
        """
        imports = super().gen_common_triton_imports()
        return (
            imports
            + "from inductor_npu.codegen import device_functions, kernel_library, scan_library\n"
            + "from inductor_npu.tiling import heuristics as triton_heuristics\n"
        )

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        target = providers.current_target()
        return {
            **super().inductor_meta_common(),
            "npu_max_grid": target.max_grid,
            "npu_unified_buffer": target.unified_buffer,
            "npu_cores": target.vector_cores,
        }

    def codegen_kernel(self, name: str | None = None) -> str:
        """Inductor's source, with this kernel's tile among the metadata common to all."""
        # torch 2.11 has no hook per kernel; the call for the common metadata, a class method, is in all versions.
        own = {
            "npu_blocks": {self.block(a): size for a, size in self.plan.blocks.items() if not self.is_whole(a)},
            "npu_tiled": [
                (f"{axis.prefix}numel", self.block(axis.prefix) if axis.prefix in self.plan.blocks else None)
                for axis in self.axes.pointwise
            ],
        }
        self.__dict__["inductor_meta_common"] = lambda: {**type(self).inductor_meta_common(), **own}
        return super().codegen_kernel(name)


def _subscript(own: Sequence[str], axes: Sequence[str]) -> str:
    """What brings a value with the dimensions `own` to `axes`: "[:, None]"; empty if they are the same."""
    if not own or len(axes) <= len(own):
        return ""
    return f"[{', '.join(':' if axis in own else 'None' for axis in axes)}]"


def _is_scalar_argument(name: str) -> bool:
    from torch._inductor.codegen.triton import should_unwrap_unspec_arg

    return should_unwrap_unspec_arg(name)

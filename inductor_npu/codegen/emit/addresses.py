"""Prints indices, addresses and masks: where a tile is in memory, and which of its lanes exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_type
from torch._inductor.utils import sympy_subs
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis.access_forms import Direct
from inductor_npu.codegen.analysis.tiled_axes import AxisNames
from inductor_npu.codegen.emit.operands import literal_of
from inductor_npu.codegen.emit.tile_kernel import TileKernel, subscript
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.index_values import in_float64, with_exact_divisions
from inductor_npu.codegen.index.vector_text import vector_text


@dataclass(frozen=True)
class Address:
    """Where a tile lies in memory: a Triton expression `text`, in elements, with a dimension for each of `axes`.

    `axes` are the dimensions of the access in the order of memory, the contiguous one last. `indirect`: the address
    contains loaded indices.
    """

    text: str
    axes: AxisNames
    indirect: bool


class Addresses:
    """Writes indices, addresses and masks of `kernel` as text."""

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel

    def bounds_text(self, bounds: Bounds, among: Sequence[str]) -> list[str]:
        """A comparison for each bound of an axis in `among`, each with the dimensions `among`."""
        conditions = []
        for symbol in bounds.symbols:
            axis = self.kernel.axis_with(symbol).prefix
            if axis not in among:
                continue
            index = f"{symbol}{subscript((axis,), among)}"
            if symbol in bounds.low:
                conditions.append(f"({index} >= {self.kernel.index_to_str(bounds.low[symbol])})")
            if symbol in bounds.high:
                conditions.append(f"({index} < {self.kernel.index_to_str(bounds.high[symbol])})")
        return conditions

    def mask_of(self, bounds: Bounds) -> CSEVariable:
        """The predicate `bounds` as a value."""
        axes = self.kernel.in_tile_order({self.kernel.axis_with(symbol).prefix for symbol in bounds.symbols})
        text = " & ".join(self.bounds_text(bounds, axes))
        mask = self.kernel.cse.generate(self.kernel.compute, text, dtype=torch.bool, shape=self.kernel.shape_of(axes))
        mask.predicate = bounds
        return mask

    def mask_text_of(self, axis: str, axes: Sequence[str]) -> str:
        """The lanes along `axis` that exist, as a mask with the dimensions `axes`."""
        return f"{axis}mask{subscript((axis,), axes)}"

    def mask_text(self, axes: Sequence[str], bounded: Bounds | None = None) -> str:
        """The lanes of a tile with dimensions `axes` that exist and are within `bounded`; "None" if these are all
        lanes.
        """
        conditions = [self.mask_text_of(axis, axes) for axis in axes if self.kernel.needs_mask(axis)]
        if bounded is not None:
            conditions += self.bounds_text(bounded, axes)
        if self.kernel._load_mask is not None and not self.kernel.axes_of(self.kernel._load_mask.shape):
            conditions.append(str(self.kernel._load_mask))
        return " & ".join(conditions) or "None"

    def is_last_text(self, buffer: str) -> list[str]:
        """The predicates under which `buffer` is stored to, if it gets several values at one address: the last one
        stays, as in eager PyTorch on a CPU.

        There is one for each axis along which the values differ; all of these are scalar-loop axes.
        """
        last = (
            (symbol, self.kernel.axis_with(symbol).length - 1)
            for symbol in self.kernel.plan.overwritten.get(buffer, ())
        )
        return [f"({symbol} == {self.kernel.index_to_str(index)})" for symbol, index in last]

    def address_of(self, form: Direct) -> Address:
        """Where the elements of a tile with the form `form` lie in memory."""
        index, axes = self.kernel.prepare_indexing(form.index), form.axes
        loaded = [self.kernel.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        symbols = {axis: str(self.kernel.axis_of[axis].symbol) for axis in axes}
        spelled = {symbol: f"{symbol}{subscript((axis,), axes)}" for axis, symbol in symbols.items()}
        spelled |= {str(value): self.in_order(value, axes) for value in loaded}
        text = self._text_of_index(index, {s: spelled[str(s)] for s in index.free_symbols if str(s) in spelled})
        if form.guarded:
            text = f"tl.where({self.in_order(self.kernel._load_mask, axes)}, {text}, 0)"
        return Address(text, axes, bool(loaded))

    def row_address(self, start: sympy.Expr, rows: AxisNames, dims: Sequence[str], positions: str) -> str:
        """The address of a range that begins at `start`, as text with the dimensions `dims`: the axes `rows`, and
        `positions` along the range.
        """
        symbols = {self.kernel.axis_of[axis].symbol: axis for axis in rows}
        spelled = {symbol: sympy.Symbol(f"{symbol}{subscript((axis,), dims)}") for symbol, axis in symbols.items()}
        text = self.kernel.index_to_str(sympy_subs(start, spelled))
        across = f"{positions}{subscript(('span',), dims)}"
        return across if text == "0" else f"{text} + {across}"

    def _text_of_index(self, index: sympy.Expr, spelled: Mapping[sympy.Symbol, str]) -> str:
        """`index` as Triton text, with these spellings of symbols."""
        loaded = {s: self.kernel.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)}
        limits = {
            s: self.kernel.limit_of_loaded.get(s) for s, value in loaded.items() if self.kernel.axes_of(value.shape)
        }
        names = {symbol: sympy.Symbol(text) for symbol, text in spelled.items() if text != str(symbol)}
        index = sympy_subs(index, names)
        if limits and self.kernel.index_dtype == "tl.int32":
            limits = {names.get(symbol, symbol): limit for symbol, limit in limits.items()}
            index = with_exact_divisions(index, limits, self.kernel.index_to_str)
        return self.kernel.index_to_str(index)

    def _text_on_tile(self, index: sympy.Expr, spelled: Mapping[sympy.Symbol, str]) -> str:
        """`index`, which is not affine in the tile's axes, as Triton text with these spellings of symbols."""
        lengths = {
            axis.symbol: max(int(axis.length), self.kernel.max_block(axis.prefix))
            for axis in self.kernel.axis_of.values()
            if isinstance(axis.length, (int, sympy.Integer))
        }
        names = {symbol: spelled.get(symbol, self.kernel.index_to_str(symbol)) for symbol in index.free_symbols}
        text = vector_text(index, names, lengths)
        return text if self.kernel.index_dtype == "tl.int32" else f"({text}).to({self.kernel.index_dtype})"

    def in_order(self, value: CSEVariable, axes: Sequence[str]) -> str:
        """`value`, with dimensions for all of `axes`, in any order."""
        own = self.kernel.axes_of(value.shape)
        among = tuple(axis for axis in axes if axis in own)
        text = str(value)
        if among != own:
            text = f"tl.permute({text}, {[own.index(axis) for axis in among]})"
        return f"{text}{subscript(among, axes)}"

    def index_value(self, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """The index `expr` as a value of `dtype`, in the tile's order.

        `expr` is in the symbols of axes, sizes and loaded indices. Where indices fit 32 bits, loaded indices of 64 bits
        are narrowed: Ascend's chips have no vector arithmetic for them.
        """
        index = self.kernel.prepare_indexing(expr)
        if index in self.kernel.limit_of_loaded and not self.kernel.holds(index):
            return self.kernel.cse.varname_map[str(index)]
        names = [axis for axis in self.kernel.axis_of.values() if axis.symbol in index.free_symbols]
        loaded = [self.kernel.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        axes = self.kernel.in_tile_order(
            {*(a.prefix for a in names), *(axis for value in loaded for axis in self.kernel.axes_of(value.shape))}
        )
        expanded = {a.symbol: f"{a.symbol}{subscript((a.prefix,), axes)}" for a in names if a.prefix in axes}
        for symbol in index.free_symbols:
            if symbol_is_type(symbol, SymT.TMP):
                value = self.kernel.cse.varname_map[str(symbol)]
                is_wide = value.dtype == torch.int64 and self.kernel.index_dtype == "tl.int32"
                expanded[symbol] = f"{self.kernel.expanded(value, axes)}{'.to(tl.int32)' if is_wide else ''}"
        own_dtype = self.kernel.get_index_dtype_as_torch_dtype()
        is_fraction = dtype.is_floating_point and not index.is_integer  # of sizes
        number = in_float64(index) if is_fraction and dtype == torch.float64 else index
        is_divided = not loaded and affine(index, self.kernel.tile_symbols()).nonlinear
        text = self._text_on_tile(index, expanded) if is_divided else self._text_of_index(number, expanded)
        # A number of the user is no size: it may be any int64.
        is_number = index.is_Integer or (index.is_Symbol and not (index.is_nonnegative or axes or loaded))
        if is_number and not (index.is_Symbol and dtype is torch.int32) and not self.kernel.holds(index):
            own_dtype = torch.int64
        if not axes:
            text = f"tl.full([], {text}, {triton_type(dtype if is_fraction else own_dtype)})"
        if is_fraction or dtype not in (torch.int32, torch.int64, own_dtype):
            text, own_dtype = f"({text}).to({triton_type(dtype)})", dtype
        value = self.kernel.cse.generate(self.kernel.compute, text, dtype=own_dtype, shape=self.kernel.shape_of(axes))
        if not (loaded or is_fraction):
            value.index = index
        if index.is_Integer:
            value.literal = literal_of(int(index), own_dtype)
        return value

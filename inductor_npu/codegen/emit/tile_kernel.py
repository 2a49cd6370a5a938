"""A kernel in terms of axes and tiles: which axis is a dimension of the tile, what a value's dimensions are, where an
address lies and under which conditions. What is built on this: reductions, scans, and the kernel as a whole.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import triton_type
from torch._inductor.utils import sympy_index_symbol, sympy_subs
from torch._inductor.virtualized import OpsWrapper, V, ops
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis import predicates as conditions
from inductor_npu.codegen.analysis.access_forms import Direct, Form, renamed
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.analysis.predicates import Conditions
from inductor_npu.codegen.analysis.tiled_axes import AxisNames
from inductor_npu.codegen.analysis.wide_addresses import WideAddresses, may_be_in
from inductor_npu.codegen.emit import tile_ops
from inductor_npu.codegen.emit.emitted import EmittedKernel
from inductor_npu.codegen.emit.masked_lanes import Fillings
from inductor_npu.codegen.emit.operands import FLOATS8
from inductor_npu.codegen.emit.overrides import NpuKernelOverrides
from inductor_npu.codegen.emit.tile_ops import TileOps
from inductor_npu.codegen.emit.values import TileValue
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds, bounds_where
from inductor_npu.codegen.index.index_values import by_operators, in_float64, with_exact_divisions
from inductor_npu.codegen.index.vector_text import vector_text
from inductor_npu.codegen.index.wide_indices import fits_int32


class TileOverrides(NpuKernelOverrides):
    """Operators whose text depends on the kernel's axes."""

    @classmethod
    def index_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        if dtype in FLOATS8:
            return OpsWrapper._unwrap(ops.to_dtype(cls.index_expr(expr, torch.float32), dtype))
        kernel = V.kernel
        lengths = {**kernel.axes.lengths_in_indices, **kernel.limit_of_loaded}
        value = by_operators(expr, dtype, lengths, kernel.is_linear, kernel.index_value)
        return kernel.index_value(expr, dtype) if value is None else value

    @classmethod
    def value_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index in exactly this type, computed in the kernel's type of indices."""
        index = cls.index_expr(expr, dtype)
        if index.dtype == dtype:
            return index
        value = V.kernel.cse.generate(
            V.kernel.compute, f"{index}.to({triton_type(dtype)})", dtype=dtype, shape=index.shape
        )
        if index.index is not None and dtype in (torch.int32, torch.int64):
            value.index = index.index
        return value

    @staticmethod
    def indirect_indexing(
        var: CSEVariable, size: sympy.Expr | int, check: bool = True, wrap_neg: bool = True
    ) -> sympy.Symbol:
        symbol = sympy_index_symbol(str(var))
        V.kernel.limit_of_loaded[symbol] = sympy.sympify(size)
        planned = V.kernel.loaded_indices
        planned[sympy_index_symbol(f"tmp{len(planned)}")] = symbol
        return symbol

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
        selected = OpsWrapper._unwrap(ops.where(within, result, filling))
        if within.predicate is not None:
            selected.selected = within.predicate, result
        return selected


@dataclass(frozen=True)
class Address:
    """Where a tile lies in memory. `axes` are the dimensions of the access, in the order of memory: the contiguous one
    last. `text` is a Triton expression of that shape.
    """

    text: str
    axes: AxisNames
    indirect: bool


class TileKernel(EmittedKernel):
    """A kernel with one axis for each loop variable, tiled by `plan`.

    A value's `shape` names its axes' blocks in the order of the tile, and only those along which it differs.
    """

    overrides = TileOverrides

    # Attributes of the stock class that are assigned here.
    body: IndentedBuffer
    compute: IndentedBuffer
    cse: Any
    tiling: dict[str, sympy.Expr]

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        *,
        features: SIMDKernelFeatures,
        plan: KernelPlan,
        **kwargs: Any,
    ) -> None:
        self.plan = plan
        self.axes, self.tile = plan.axes, plan.tile
        self.axis_of = plan.tiled.axis_of
        self.is_whole, self.needs_mask = plan.tiled.is_whole, plan.tiled.needs_mask
        # Whether some condition on indices is a value of the kernel.
        self.has_predicates = False
        self.limit_of_loaded: dict[sympy.Symbol, sympy.Expr] = {}
        self.fillings = Fillings()
        self._accesses = itertools.count()
        # The kernel's names for loaded indices, by the plan's.
        self.loaded_indices: dict[sympy.Symbol, sympy.Symbol] = {}
        kwargs["override_persistent_reduction"] = bool(plan.axes.reduction) and plan.tile.is_persistent
        kwargs["override_cooperative_reduction"] = False
        super().__init__(tiling, features=features, **kwargs)
        # Read once more, to weigh a persistent block against a loop, which the plan has done; that fails where two axes
        # are both reduced.
        self.tiling: dict[str, sympy.Expr] = {}
        self.simplify_indexing = functools.cache(plan.axes.simplify)

    def __enter__(self) -> TileKernel:
        super().__enter__()
        assert self.overrides is not None
        self.exit_stack.enter_context(V.set_ops_handler(TileOps(self, self.overrides())))
        nodes = self.features.scheduler_nodes()
        if may_be_in(nodes):
            self.exit_stack.enter_context(V.set_ops_handler(WideAddresses(V.get_ops_handler(), nodes, self.axes)))
        if conditions.are_in(self.features):
            self.exit_stack.enter_context(V.set_ops_handler(Conditions(V.get_ops_handler(), self.known)))
        return self

    @property
    def known(self) -> Axes:
        """The axes whose lengths decide conditions on indices."""
        return self.axes

    def begin_access(self, buffer: str) -> None:
        """The loops are about to make their next load or store, which is of `buffer`."""
        number = next(self._accesses)
        assert self.plan.calls[number].buffer == buffer, (
            "the loops make accesses in the order in which they are planned"
        )
        self.form: Form = renamed(self.plan.forms[number], self.loaded_indices)

    # -- axes and their blocks ----------------------------------------------------------------------------------------

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[IterationRangesRoot]:
        """One tree per axis, with the axis as its only entry. Looped ones are last: Inductor asks the last tree whether
        what comes after a reduction has to wait for the end of a loop.
        """
        trees = []
        for position, axis in enumerate(sorted(self.axis_of.values(), key=lambda axis: axis.prefix in self.tile.loops)):
            is_argument = axis.prefix in self.tile.blocks and not self.is_whole(axis.prefix)
            tree = IterationRangesRoot(
                f"{axis.prefix}index",
                axis.length,
                axis.prefix,
                position,
                self,
                is_loop=axis.prefix in self.tile.loops,
                tensor_dim=self.tile.order.index(axis.prefix) if is_argument else None,
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

    def disable_reduction(self) -> contextlib.AbstractContextManager[None]:
        """As Inductor's, also of a reduction over a size that is known to be 1, and so has no axis."""
        return super().disable_reduction() if self.range_trees else contextlib.nullcontext()

    def codegen_range_tree(self) -> None:
        """Nothing: the axes are written around the finished body, see codegen_static_numels."""

    def codegen_reduction_numels(self, buffer: IndentedBuffer) -> None:
        """Nothing: reduced axes stay apart."""

    def split_and_set_ranges(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        return self.axes.index_variables(lengths)

    def max_block(self, prefix: str) -> int:
        return self.plan.tiled.block(prefix)

    def _has_constant_mask(self, tree: IterationRangesRoot) -> bool:
        return tree.prefix not in self.tile.blocks or not self.needs_mask(tree.prefix)

    def block(self, prefix: str) -> str:
        return f"{prefix.upper()}BLOCK"

    def shape_of(self, axes: Sequence[str]) -> AxisNames:
        return tuple(self.block(axis) for axis in axes)

    def in_tile_order(self, axes: Any) -> AxisNames:
        return tuple(axis for axis in self.tile.order if axis in axes)

    def axes_of(self, shape: Any) -> AxisNames:
        """The axes of a value, by its shape."""
        names = {str(size) for size in shape or ()}
        return tuple(axis for axis in self.tile.order if self.block(axis) in names)

    def union_of_axes(self, shapes: Sequence[Any]) -> AxisNames:
        return self.in_tile_order({axis for shape in shapes for axis in self.axes_of(shape)})

    def expanded(self, value: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """`value` with dimensions of length one where it lacks one of `axes` (those before its first need none)."""
        value = self.without_added(value)
        own = self.axes_of(value.shape)
        if not own or own == tuple(axes[len(axes) - len(own) :]):
            return value
        needed = axes[axes.index(own[0]) :]
        shape = tuple(self.block(axis) if axis in own else "1" for axis in needed)
        view = tile_ops.copy_of(value, f"{value}{subscript(own, needed)}", shape)
        view.view_of = value
        return view

    def without_added(self, value: CSEVariable) -> CSEVariable:
        """`value` without dimensions that `expanded` gave it. An operator that is made of others hands such operands on
        to them, and they are brought to common axes again.
        """
        return value.view_of or value

    def broadcast(self, value: CSEVariable, axes: Sequence[str], buffer: IndentedBuffer) -> CSEVariable:
        """`value` with all of `axes` as dimensions."""
        value = self.without_added(value)
        if self.axes_of(value.shape) == tuple(axes):
            return value
        shape = self.shape_of(axes)
        whole = f"{value}{subscript(self.axes_of(value.shape), axes)}"
        text = f"tl.broadcast_to({whole}, [{', '.join(shape)}])"
        return self.cse.generate(buffer, text, dtype=value.dtype, shape=shape)

    # -- conditions on indices ----------------------------------------------------------------------------------------

    def tile_symbols(self) -> list[sympy.Symbol]:
        return [self.axis_of[axis].symbol for axis in self.tile.order]

    def axis_with(self, symbol: sympy.Symbol) -> Axis:
        return self.plan.tiled.axis_with[symbol]

    def is_linear(self, index: sympy.Expr) -> bool:
        """Whether `index` is a linear function of the axes."""
        return not affine(self.prepare_indexing(index), [axis.symbol for axis in self.axis_of.values()]).nonlinear

    def bounds_where(self, difference: sympy.Expr, equality: bool) -> Bounds | None:
        bounds = bounds_where(difference, equality, self.tile_symbols(), self.axes.lengths)
        if bounds is None or self.index_dtype != "tl.int32":
            return bounds
        ends = [*bounds.low.values(), *bounds.high.values()]
        return bounds if all(end.is_Integer or fits_int32(end, self.axes.lengths) for end in ends) else None

    def bounds_text(self, bounds: Bounds, among: Sequence[str]) -> list[str]:
        """A condition for each bound of an axis in `among`, each of the shape of `among`."""
        conditions = []
        for symbol in bounds.symbols:
            axis = self.axis_with(symbol).prefix
            if axis not in among:
                continue
            index = f"{symbol}{subscript((axis,), among)}"
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
        self.note_predicate(mask, bounds)
        return mask

    def note_predicate(self, mask: TileValue, bounds: Bounds) -> None:
        """The condition `mask` is `bounds`, or implies them."""
        mask.predicate = bounds
        self.has_predicates = True

    @property
    def load_predicate(self) -> Bounds | None:
        """The bounds of indices within which loads are made at present, if the condition has any."""
        return self._load_mask.predicate if self._load_mask is not None else None

    def spread(self, mask: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """`mask`, or the same condition for a tile with dimensions `axes` where that is cheaper than to repeat it."""
        return mask

    def is_limited_to(self, value: CSEVariable, mask: CSEVariable) -> bool:
        """Whether `value` is a load that has its filling wherever `mask` does not hold."""
        if value.limited_to != mask:
            return False
        if not self.axes_of(mask.shape):
            return True
        bounds = mask.predicate
        axes = self.axes_of(value.shape)
        return bounds is not None and bounds.exact and all(self.axis_with(s).prefix in axes for s in bounds.symbols)

    # -- addresses ----------------------------------------------------------------------------------------------------

    def address_of(self, form: Direct) -> Address:
        """Where the elements of a tile lie in memory by `form`."""
        index, axes = self.prepare_indexing(form.index), form.axes
        loaded = [self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        symbols = {axis: str(self.axis_of[axis].symbol) for axis in axes}
        spelled = {symbol: f"{symbol}{subscript((axis,), axes)}" for axis, symbol in symbols.items()}
        spelled |= {str(value): self.in_order(value, axes) for value in loaded}
        text = self._text_of_index(index, {s: spelled[str(s)] for s in index.free_symbols if str(s) in spelled})
        if form.guarded:
            text = f"tl.where({self.in_order(self._load_mask, axes)}, {text}, 0)"
        return Address(text, axes, bool(loaded))

    def _text_of_index(self, index: sympy.Expr, spelled: Mapping[sympy.Symbol, str]) -> str:
        """`index` as Triton text, with these spellings of symbols."""
        loaded = {s: self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)}
        limits = {s: self.limit_of_loaded.get(s) for s, value in loaded.items() if self.axes_of(value.shape)}
        names = {symbol: sympy.Symbol(text) for symbol, text in spelled.items() if text != str(symbol)}
        index = sympy_subs(index, names)
        if limits and self.index_dtype == "tl.int32":
            limits = {names.get(symbol, symbol): limit for symbol, limit in limits.items()}
            index = with_exact_divisions(index, limits, self.index_to_str)
        return self.index_to_str(index)

    def _text_on_tile(self, index: sympy.Expr, spelled: Mapping[sympy.Symbol, str]) -> str:
        """`index`, no linear function of the tile's axes, as Triton text with these spellings of symbols."""
        lengths = {
            axis.symbol: max(int(axis.length), self.max_block(axis.prefix))
            for axis in self.axis_of.values()
            if isinstance(axis.length, (int, sympy.Integer))
        }
        names = {symbol: spelled.get(symbol, self.index_to_str(symbol)) for symbol in index.free_symbols}
        text = vector_text(index, names, lengths)
        return text if self.index_dtype == "tl.int32" else f"({text}).to({self.index_dtype})"

    def in_order(self, value: CSEVariable, axes: Sequence[str]) -> str:
        """`value`, with dimensions for all of `axes`, whatever their order."""
        own = self.axes_of(value.shape)
        among = tuple(axis for axis in axes if axis in own)
        text = str(value)
        if among != own:
            text = f"tl.permute({text}, {[own.index(axis) for axis in among]})"
        return f"{text}{subscript(among, axes)}"

    def mask_text_of(self, axis: str, axes: Sequence[str]) -> str:
        """The part of `axis` in the tile that exists, with the dimensions `axes`."""
        return f"{axis}mask{subscript((axis,), axes)}"

    def is_last_text(self, buffer: str) -> list[str]:
        """Of several values that `buffer` gets at one address the last one stays, as in eager PyTorch on a CPU: a
        condition for each axis along which they differ, all of which are walked.
        """
        last = ((symbol, self.axis_with(symbol).length - 1) for symbol in self.plan.overwritten.get(buffer, ()))
        return [f"({symbol} == {self.index_to_str(index)})" for symbol, index in last]

    def mask_text(self, axes: Sequence[str], bounded: Bounds | None = None) -> str:
        """The part of a tile with dimensions `axes` that exists, and within `bounded`; "None" if that is all of it."""
        conditions = [self.mask_text_of(axis, axes) for axis in axes if self.needs_mask(axis)]
        if bounded is not None:
            conditions += self.bounds_text(bounded, axes)
        if self._load_mask is not None and not self.axes_of(self._load_mask.shape):
            conditions.append(str(self._load_mask))
        return " & ".join(conditions) or "None"

    @functools.cached_property
    def stores_by_index(self) -> bool:
        """Whether something is stored at addresses that are loaded."""
        return any(write.is_indirect() for node in self.features.scheduler_nodes() for write in node.read_writes.writes)

    def holds(self, index: sympy.Expr) -> bool:
        """Whether int32 holds `index`, of sizes and loaded indices."""
        return fits_int32(index, self.limit_of_loaded)

    # -- indices as values ---------------------------------------------------------------------------------------------

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
        address = self.address_of(form)
        mask = self.mask_text(address.axes, predicate)
        limit = self.index_to_str(size) if upper else None
        line = self.indirect_assert(address.text, "0" if lower else None, limit, None if mask == "None" else mask)
        self.cse.generate(self.compute, line, assignment=False, dtype=torch.int32)

    def index_value(self, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index as a value, in the tile's order. Where indices fit 32 bits, loaded ones of 64 are narrowed: Ascend's
        chips have no arithmetic for these.
        """
        index = self.prepare_indexing(expr)
        if index in self.limit_of_loaded and not self.holds(index):
            return self.cse.varname_map[str(index)]
        names = [axis for axis in self.axis_of.values() if axis.symbol in index.free_symbols]
        loaded = [self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)]
        axes = self.in_tile_order(
            {*(a.prefix for a in names), *(axis for value in loaded for axis in self.axes_of(value.shape))}
        )
        expanded = {a.symbol: f"{a.symbol}{subscript((a.prefix,), axes)}" for a in names if a.prefix in axes}
        for symbol in index.free_symbols:
            if symbol_is_type(symbol, SymT.TMP):
                value = self.cse.varname_map[str(symbol)]
                is_wide = value.dtype == torch.int64 and self.index_dtype == "tl.int32"
                expanded[symbol] = f"{self.expanded(value, axes)}{'.to(tl.int32)' if is_wide else ''}"
        own_dtype = self.get_index_dtype_as_torch_dtype()
        is_fraction = dtype.is_floating_point and not index.is_integer  # of sizes
        number = in_float64(index) if is_fraction and dtype == torch.float64 else index
        is_divided = not loaded and affine(index, self.tile_symbols()).nonlinear
        text = self._text_on_tile(index, expanded) if is_divided else self._text_of_index(number, expanded)
        if index.is_Integer and not self.holds(index):
            own_dtype = torch.int64
        if not axes:
            text = f"tl.full([], {text}, {triton_type(dtype if is_fraction else own_dtype)})"
        if is_fraction or dtype not in (torch.int32, torch.int64, own_dtype):
            text, own_dtype = f"({text}).to({triton_type(dtype)})", dtype
        value = self.cse.generate(self.compute, text, dtype=own_dtype, shape=self.shape_of(axes))
        if not (loaded or is_fraction):
            value.index = index
        return value


def subscript(own: Sequence[str], axes: Sequence[str]) -> str:
    """What brings a value with the dimensions `own` to `axes`: "[:, None]"; empty if they are the same."""
    if not own or len(axes) <= len(own):
        return ""
    return f"[{', '.join(':' if axis in own else 'None' for axis in axes)}]"

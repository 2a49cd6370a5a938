"""Operators on the scores of a tile: what modifies a score, and masks of scores, as text of a kernel.

A value has only the axes along which it varies: `row` [ROWS], `column` [COLUMNS], both in the order of the kernel, or
none. Loads are limited to queries and keys that exist, so that an index of another one is never followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEProxy, CSEVariable
from torch._inductor.codegen.triton import triton_type
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import OpsWrapper, V, ops
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.attention.problem import COLUMN, ROW
from inductor_npu.codegen.emit.masked_lanes import masked_value_text
from inductor_npu.codegen.emit.operands import HALVES
from inductor_npu.codegen.emit.overrides import NpuKernelOverrides
from inductor_npu.codegen.emit.tile_kernel import subscript
from inductor_npu.codegen.emit.values import copy_of


class ScoreOverrides(NpuKernelOverrides):
    """Operators whose text depends on the axes of scores."""

    @classmethod
    def index_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """The index `expr`, in symbols of axes and sizes, as a value of `dtype`."""
        kernel = V.kernel
        return kernel.index_value(expr, dtype)

    value_expr = index_expr

    @staticmethod
    def indirect_indexing(
        var: CSEVariable, size: sympy.Expr | int, check: bool = True, wrap_neg: bool = True
    ) -> sympy.Symbol:
        """The symbol that stands for `var` in an index."""
        return sympy_index_symbol(str(var))

    @staticmethod
    def masked(mask: CSEVariable, body: Any, other: Any) -> CSEVariable:
        """`body` where `mask` holds, else `other`; its loads are limited to these lanes."""
        with V.kernel.mask_loads(mask, value=other) as within:
            result = OpsWrapper._unwrap(body())
        constant = ops.constant(bool(other) if result.dtype == torch.bool else other, result.dtype)
        return OpsWrapper._unwrap(ops.where(within, result, constant))


class ScoreOps(CSEProxy):
    """CSEProxy that brings operands to common axes. `order` are the axes of a tile, the last one contiguous."""

    kernel: Any  # with ScoreIndices

    def __init__(self, kernel: Any, order: Sequence[str]) -> None:
        super().__init__(kernel, ScoreOverrides())
        self.order = tuple(order)

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(arg.view_of or arg if isinstance(arg, CSEVariable) else arg for arg in args)
        axes = self.axes_of([arg for arg in args if isinstance(arg, CSEVariable)])
        args = tuple(self.expanded(arg, axes) if isinstance(arg, CSEVariable) else arg for arg in args)
        return super()._default(name, args, kwargs)

    def _bound_variable(self, name: str, *args: Any, **kwargs: Any) -> ValueRanges[Any]:
        """Bounds of indices, of which those of a sum or a product follow: an index that cannot be negative is not
        counted from the end.
        """
        integers = all(isinstance(arg, CSEVariable) and arg.bounds.is_int for arg in args)
        if kwargs or not integers or name not in ("add", "sub", "mul", "maximum", "minimum"):
            return ValueRanges.unknown()
        return getattr(self.vr_analysis, name)(*(arg.bounds for arg in args))

    def axes_of(self, values: Sequence[CSEVariable]) -> tuple[str, ...]:
        """The axes of `values` together, in the order of the tile."""
        found = {size for value in values for size in map(str, value.shape or ())}
        return tuple(axis for axis in self.order if self.kernel.block(axis) in found)

    def expanded(self, value: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """`value` with dimensions of length one where it lacks one of `axes`."""
        own = self.axes_of([value])
        if not own or own == tuple(axes):
            return value
        shape = tuple(self.kernel.block(axis) if axis in own else "1" for axis in axes)
        view = copy_of(value, f"{value}{subscript(own, axes)}", shape)
        view.view_of = value
        return view

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        """The elements of buffer `name` at `index`, in the dtype in which they are computed."""
        kernel = self.kernel
        pointer, dtype = kernel.args.input(name), V.graph.get_dtype(name)
        computed = torch.float32 if dtype in HALVES else dtype
        if kernel.is_number(name):
            return kernel.cse.generate(kernel.compute, pointer, dtype=computed, shape=())
        axes = kernel.axes_of_index(index, self.order)
        in_memory = axes
        if len(axes) == 2 and index.coeff(_symbol(axes[0])) == 1 and index.coeff(_symbol(axes[1])) != 1:
            in_memory = axes[::-1]
        text = f"tl.load({pointer} + ({kernel.index_text(index, in_memory)}), {kernel.lanes(in_memory, self.order)}"
        if kernel._load_mask is not None:
            text += f", other={masked_value_text(kernel._load_other, dtype)}"
        shape = kernel.shape_of(axes)
        text = f"{text})" if in_memory == axes else f"tl.trans({text}))"
        value = kernel.cse.generate(kernel.compute, text, dtype=dtype, shape=shape)
        if dtype in HALVES:
            return kernel.cse.generate(kernel.compute, f"{value}.to(tl.float32)", dtype=computed, shape=shape)
        if dtype == torch.bool:  # a load from an int1 pointer gives int8
            return kernel.cse.generate(kernel.compute, f"{value}.to(tl.int1)", dtype=dtype, shape=shape)
        return value

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Does nothing, as in Inductor's own kernels of attention."""

    def store(self, name: str, index: sympy.Expr, value: Any, mode: Any = None) -> None:
        """Raises NotImplementedError: what modifies a score stores nothing."""
        raise NotImplementedError(f"a store to {name} by what modifies a score of attention")


def _symbol(axis: str) -> sympy.Symbol:
    return ROW if axis == "row" else COLUMN


class ScoreIndices:
    """Indices of scores as text of `kernel`, which mixes this in."""

    args: Any
    cse: Any
    compute: Any
    order: tuple[str, str]
    _load_mask: CSEVariable | None

    def block(self, axis: str) -> str:
        """The name of the length of an axis in a tile."""
        return {"row": "ROWS", "column": "COLUMNS"}[axis]

    def shape_of(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The shape of a value with the dimensions `axes`."""
        return tuple(self.block(axis) for axis in axes)

    def is_number(self, name: str) -> bool:
        """Whether buffer `name` is a number that is an argument by value."""
        return V.graph.is_unspec_arg(name)

    def _values_in(self, index: sympy.Expr) -> dict[sympy.Symbol, CSEVariable]:
        return {s: self.cse.varname_map[str(s)] for s in index.free_symbols if symbol_is_type(s, SymT.TMP)}

    def axes_of_index(self, index: sympy.Expr, order: Sequence[str]) -> tuple[str, ...]:
        """The axes along which `index` varies, in this order."""
        shapes = {str(size) for value in self._values_in(index).values() for size in value.shape or ()}
        return tuple(axis for axis in order if _symbol(axis) in index.free_symbols or self.block(axis) in shapes)

    def index_text(self, index: sympy.Expr, axes: Sequence[str]) -> str:
        """`index` as text with the dimensions `axes`."""
        spelled = {_symbol(axis): f"{axis}{subscript((axis,), axes)}" for axis in axes}
        for symbol, value in self._values_in(index).items():
            own = tuple(axis for axis in axes if self.block(axis) in map(str, value.shape or ()))
            among = tuple(str(size) for size in value.shape or ())
            text = str(value) if among == self.shape_of(own) else f"tl.trans({value})"
            spelled[symbol] = f"{text}{subscript(own, axes)}"
        names = {symbol: sympy.Symbol(text) for symbol, text in spelled.items() if symbol in index.free_symbols}
        return self.index_to_str(index.xreplace(names))  # type: ignore[attr-defined]

    def index_value(self, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """The index `expr`, affine in the axes, as a value of `dtype`."""
        axes = self.axes_of_index(expr, self.order)
        text = self.index_text(expr, axes)
        own = self.get_index_dtype_as_torch_dtype()  # type: ignore[attr-defined]
        if not axes and not isinstance(expr, sympy.Symbol):
            text = f"tl.full([], {text}, {triton_type(own)})"
        if dtype not in (torch.int32, torch.int64, own):
            text, own = f"({text}).to({triton_type(dtype)})", dtype
        bounds = self.bounds_of_index(expr) if not own.is_floating_point else ValueRanges.unknown()
        return self.cse.generate(self.compute, text, bounds=bounds, dtype=own, shape=self.shape_of(axes))

    def bounds_of_index(self, expr: sympy.Expr) -> ValueRanges[Any]:
        """The least and the greatest value of `expr`."""
        raise NotImplementedError

    def lanes(self, axes: Sequence[str], order: Sequence[str]) -> str:
        """The lanes of a load with the dimensions `axes` that exist, as text of a mask; "None" if all do."""
        raise NotImplementedError

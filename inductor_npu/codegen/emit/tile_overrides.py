"""Operators whose text depends on a kernel's axes: indices as values, loads under a predicate."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_type
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import OpsWrapper, V, ops

from inductor_npu.codegen.emit.operands import FLOATS8
from inductor_npu.codegen.emit.overrides import NpuKernelOverrides
from inductor_npu.codegen.index.index_values import by_operators


class TileOverrides(NpuKernelOverrides):
    """Operators whose text depends on the kernel's axes."""

    @classmethod
    def index_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        if dtype in FLOATS8:
            return OpsWrapper._unwrap(ops.to_dtype(cls.index_expr(expr, torch.float32), dtype))
        kernel = V.kernel
        lengths = {**kernel.axes.lengths_in_indices, **kernel.limit_of_loaded}
        value = by_operators(expr, dtype, lengths, kernel.is_linear, kernel.addresses.index_value)
        return kernel.addresses.index_value(expr, dtype) if value is None else value

    @classmethod
    def value_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index in exactly this dtype, computed in the kernel's index type."""
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
        """`body` where `mask` holds, else `other`. Its loads are limited to these lanes if the mask is a predicate on
        indices.
        """
        kernel = V.kernel
        with kernel.mask_loads(mask, value=other) as within:
            result = OpsWrapper._unwrap(body())
        if kernel.is_limited_to(result, within):
            return result
        dtype = result.dtype
        masked_value = ops.constant(bool(other) if dtype == torch.bool else other, dtype)
        selected = OpsWrapper._unwrap(ops.where(within, result, masked_value))
        if within.predicate is not None:
            selected.selected = within.predicate, result
        return selected

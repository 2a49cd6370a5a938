"""Addresses that fit int32 while their terms do not, such as that of `x[torch.arange(9) * 10**9 % 9]`.

An address is computed in the kernel's index type, int32 for most kernels. Where int32 does not hold a dividend or a
compared term in it, that part is computed as a value of 64 bits (wide_indices.py), and the address depends on it as on
a loaded index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.ops_handler import WrapperHandler
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import Where

from inductor_npu.codegen.analysis.axes import Axes
from inductor_npu.codegen.index.wide_indices import fits_within, index_fits_int32, is_plain, limit_of


def may_be_in(nodes: Sequence[Any]) -> bool:
    """Returns whether the loops `nodes` may have such addresses."""
    bodies = [node._body for node in nodes]
    return any(body.has_op("check_bounds") or not all(map(is_plain, body.indexing_exprs.values())) for body in bodies)


class WideAddresses(WrapperHandler):
    """Hands `inner` the operators of loops `nodes` over `axes`, with addresses that the kernel's index type holds."""

    def __init__(self, inner: Any, nodes: Sequence[Any], axes: Axes) -> None:
        super().__init__(inner)
        self._nodes = nodes
        self._axes = axes
        self._limits: dict[sympy.Symbol, sympy.Expr] = {}
        self._has_wide_type: bool | None = None

    def load(self, name: str, index: sympy.Expr) -> Any:
        return self._inner.load(name, self._address(name, index))

    def store(self, name: str, index: sympy.Expr, value: Any, mode: Any = None) -> None:
        self._inner.store(name, self._address(name, index), value, mode)

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if (lower or upper) and not expr.is_Symbol:
            index = self._axes.simplify(expr)
            if not index_fits_int32(index, self._lengths()) and not self._holds_all():
                expr = self._value(index, size)
        self._inner.check_bounds(expr, size, lower, upper)

    def indirect_indexing(self, var: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        symbol = self._inner.indirect_indexing(var, size, check, wrap_neg)
        self._limits[symbol] = sympy.sympify(size)
        return symbol

    def _address(self, name: str, index: sympy.Expr) -> sympy.Expr:
        """`index` of the buffer `name`, with a loaded index in place of the part that int32 does not hold."""
        address = self._axes.simplify(index)
        if is_plain(address):
            return index
        lengths = self._lengths()
        if fits_within(address, lengths) or self._holds_all():
            return index
        wide = sympy.Add(*(term for term in sympy.Add.make_args(address) if not fits_within(term, lengths)))
        limit = None if wide.has(Where) else limit_of(wide, lengths)
        if limit is None:
            return self._value(address, V.graph.get_buffer(name).get_layout().storage_size())
        return address - wide + self._value(wide, limit)

    def _value(self, index: sympy.Expr, limit: sympy.Expr) -> sympy.Symbol:
        """`index`, computed in 64 bits, as a loaded index below `limit`."""
        value = self._inner.index_expr(index, torch.int64)
        return self.indirect_indexing(value, limit, check=False, wrap_neg=False)

    def _lengths(self) -> dict[sympy.Symbol, sympy.Expr]:
        return {**self._axes.lengths, **self._limits}

    def _holds_all(self) -> bool:
        """Whether the kernel's index type is int64."""
        if self._has_wide_type is None:
            features = SIMDKernelFeatures(list(self._nodes), self._axes.elements)
            self._has_wide_type = features.select_index_dtype() == torch.int64
        return self._has_wide_type

"""Elementwise operators on values that have only the axes along which they vary.

A row result in a kernel with tiles of [YBLOCK, XBLOCK] has the shape [YBLOCK]; beside a tile it is written `tmp[:,
None]`. Nothing is loaded or computed in more dimensions than it has.

Predicates on indices are kept as bounds: Ascend's compiler limits an access under `(x >= 64) & (x < 128)` to that part
of the row, where with any other mask it accesses all of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEProxy, CSEVariable
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.contractions import Product
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.codegen.emit.values import fact
from inductor_npu.codegen.index.bounds import ALL_COMPARISONS, COMPARISONS, CONJUNCTIONS, Bounds, difference_of
from inductor_npu.codegen.index.wide_indices import UP_TO_32_BITS

_INTEGERS = (*UP_TO_32_BITS, torch.int64)
_WIDENED = (torch.bool, *UP_TO_32_BITS)
_ALL_WHOLE = 1 << 53  # up to which float64 has all whole numbers
_OF_AN_ARGMAX = ("lt", "gt", "eq", "ne", "logical_and", "logical_or")


class TileOps(CSEProxy):
    """CSEProxy that brings operands to common axes, and records which predicates are bounds of indices."""

    kernel: TileKernel

    def __init__(self, kernel: TileKernel, parent: Any, addresses: Addresses, positions: Positions) -> None:
        super().__init__(kernel, parent)
        self.addresses, self.positions = addresses, positions

    def dot(self, left: CSEVariable, right: CSEVariable) -> Product:
        """The products of two tiles, which the reduction around them sums."""
        return Product(left, right)

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(self.kernel.without_added(arg) if isinstance(arg, CSEVariable) else arg for arg in args)
        if name == "logical_or" and (comparison := self._comparison_for_first(args)) is not None:
            return comparison
        bounds = self._bounds(name, args)
        if bounds is not None and bounds.exact:
            return self.addresses.mask_of(bounds)
        if name == "where":
            args = self._without_selections(*args)
            args = (self.positions.spread(args[0], self._axes_of(args)), *args[1:])
        if name in ALL_COMPARISONS and all(fact(arg, "truth") is not None for arg in args):
            args = tuple(self._truth(arg) for arg in args)
        result = super()._default(name, tuple(self._aligned(args)), kwargs)
        self._note_truth(name, args, result)
        if name == "constant" and isinstance(args[0], int) and not isinstance(args[0], bool):
            result.index = sympy.Integer(args[0])
        if name == "to_dtype" and fact(args[0], "index") is not None and result.dtype in (torch.int32, torch.int64):
            result.index = args[0].index
        self.kernel.masked_lanes.computed(name, args, result)
        if name == "to_dtype" and getattr(args[0], "dtype", None) in _WIDENED and result.dtype == torch.int64:
            result.narrow = args[0]
        if name == "to_dtype" and result.dtype in (torch.int8, torch.uint8, torch.int16):
            result.wide = result.wide or args[0]
        if bounds is not None:
            result.predicate = bounds
        if name in _OF_AN_ARGMAX and result not in args:
            result.operator, result.operands = name, args
        return result

    def load(self, name: str, index: sympy.Expr) -> Any:
        """As CSEProxy's, in the form that the plan has for this load."""
        self.kernel.begin_access(name)
        return super().load(name, index)

    def store(self, name: str, index: sympy.Expr, value: Any, mode: Any = None) -> None:
        """As CSEProxy's, in the form that the plan has for this store."""
        self.kernel.begin_access(name)
        super().store(name, index, value, mode)

    def store_reduction(self, name: str, index: sympy.Expr, value: Any) -> None:
        """As CSEProxy's, in the form that the plan has for this store."""
        self.kernel.begin_access(name)
        super().store_reduction(name, index, value)

    def indirect_indexing(
        self, var: CSEVariable, size: sympy.Expr | int, check: bool = True, wrap_neg: bool = True
    ) -> sympy.Symbol:
        """As CSEProxy's, but an index that may be negative is normalised in 32 bits, without a comparison. Where
        elements are stored one by one, the scalar core computes it, in 64 bits.
        """
        is_tile = bool(self.kernel.axes_of(var.shape)) and self.kernel.index_dtype == "tl.int32"
        if (
            is_tile
            and wrap_neg
            and self.kernel.holds(sympy.sympify(size))
            and not self.kernel.stores_by_index
            and var.bounds.lower < 0 <= var.bounds.upper
        ):
            text = f"device_functions.index_from_start({var}, {self.kernel.index_to_str(sympy.sympify(size))})"
            var = self.kernel.cse.generate(self.kernel.compute, text, dtype=torch.int32, shape=var.shape)
            wrap_neg = False
        return super().indirect_indexing(var, size, check, wrap_neg)

    def _bound_variable(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Inductor's bounds, with integers as bounds of integers: Inductor has floating-point bounds for a truncated
        quotient and all that depends on it, which cannot be compared with those of a variable.
        """
        bounds = super()._bound_variable(name, *args, **kwargs)
        if bounds == ValueRanges.unknown() or not bounds.is_float:
            return bounds
        dtype = getattr(DtypePropagationOpsHandler(), name)(*args, **kwargs)
        return whole(bounds) if dtype in _INTEGERS else bounds

    def _comparison_for_first(self, args: tuple[Any, ...]) -> Any:
        """`a >= b or a is NaN`, for the question of Inductor's argmax about an `a` that comes before `b`: whether it is
        larger, or NaN and `b` is not, or equal, or both are NaN. None if `args` are something else.
        """
        larger, equal = map(_made_by, args)
        if not (larger[0] == equal[0] == "logical_or"):
            return None
        strictly, only_first, same, both = map(_made_by, (*larger[1:], *equal[1:]))
        sign, *pair = strictly
        if sign not in ("gt", "lt") or same != ("eq", *pair):
            return None
        (a, b), nans = pair, both[1:]
        if both != ("logical_and", *nans) or only_first != ("gt", *nans):
            return None
        if [*map(_made_by, nans)] != [("ne", a, a), ("ne", b, b)]:
            return None
        return self.logical_or(self.ge(a, b) if sign == "gt" else self.le(a, b), self.ne(a, a))

    def _note_truth(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Records that `result` is a predicate in an integer dtype, 0 or 1."""
        if name == "to_dtype" and isinstance(args[0], CSEVariable) and result.dtype in _INTEGERS:
            if args[0].dtype == torch.bool:
                result.bounds = ValueRanges(0, 1)
                result.truth = args[0]
            elif fact(args[0], "truth") is not None:
                result.truth = args[0].truth
        elif name == "where" and all(fact(arg, "truth") is not None for arg in args[1:]):
            result.truth = result.truth or (args[0], args[1], args[2])  # it may be such an integer itself

    def _truth(self, value: Any) -> Any:
        """The predicate that the integer `value` was."""
        truth = value.truth
        if isinstance(truth, tuple):
            condition, one, other = truth[0], self._truth(truth[1]), self._truth(truth[2])
            chosen = self.logical_and(condition, one), self.logical_and(self.logical_not(condition), other)
            truth = value.truth = self.logical_or(*chosen)
        return truth

    def _without_selections(self, condition: Any, value: Any, other: Any) -> tuple[Any, ...]:
        """The arguments of a selection, without earlier selections under the same predicate or its negation."""
        bounds = fact(condition, "predicate")
        if bounds is not None and bounds.exact:
            within, inner = fact(value, "selected") or (None, value)
            value = inner if within == bounds else value
            within, inner = fact(other, "selected") or (None, other)
            other = inner if within is not None and within == bounds.contrary() else other
        return condition, value, other

    def _axes_of(self, args: Sequence[Any]) -> tuple[str, ...]:
        return self.kernel.union_of_axes([arg.shape for arg in args if isinstance(arg, CSEVariable)])

    def _aligned(self, args: Sequence[Any]) -> list[Any]:
        axes = self._axes_of(args)
        return [self.kernel.expanded(arg, axes) if isinstance(arg, CSEVariable) else arg for arg in args]

    def _bounds(self, name: str, args: tuple[Any, ...]) -> Bounds | None:
        if name in CONJUNCTIONS:
            a, b = (fact(arg, "predicate") or Bounds({}, {}, exact=False) for arg in args)
            both = a.and_(b)
            return both if both.symbols else None
        if name not in (*COMPARISONS, "eq"):
            return None
        left, right = (self._index(arg) for arg in args)
        if left is None or right is None:
            return None
        if name == "eq":
            return self.kernel.bounds_where(left - right, True)
        return self.kernel.bounds_where(difference_of(name, left, right), False)

    def _index(self, arg: Any) -> sympy.Expr | None:
        if isinstance(arg, int) and not isinstance(arg, bool):
            return sympy.Integer(arg)
        return fact(arg, "index")


def _made_by(value: Any) -> tuple[Any, ...]:
    """The operator that made a predicate, and its operands; an empty name if it cannot be a part of an argmax."""
    operator = fact(value, "operator")
    return ("",) if operator is None else (operator, *value.operands)


def whole(bounds: ValueRanges) -> ValueRanges:
    """`bounds` of integers as integers, where they are floating-point numbers; a bound that may be rounded is lost."""
    lower = math.ceil(bounds.lower) if abs(bounds.lower) <= _ALL_WHOLE else -int_oo
    upper = math.floor(bounds.upper) if abs(bounds.upper) <= _ALL_WHOLE else int_oo
    return ValueRanges(lower, upper)

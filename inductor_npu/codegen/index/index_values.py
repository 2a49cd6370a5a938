"""Indices that a kernel uses as values and that are not affine in its axes, such as the number of elements in a window.

An index that is affine in the axes of the tile is written as one expression. In sums, products, minima, maxima and
magnitudes of affine functions each step is an operator of its own, on the tile as any other. What remains, a `//` or
`%`, makes its axis a scalar-loop axis (`trace`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from torch._inductor.virtualized import OpsWrapper, ops
from torch.utils._sympy import functions

from inductor_npu.codegen.index.wide_indices import DIVISIONS, OPERATORS, in_64_bits, index_fits_int32, is_wide_index
from inductor_npu.tiling.limits import LARGEST_DIVIDED

# Device functions for integers that are not known to be small.
_OF_ANY_SIZE = {"quotient": "floor_divide", "remainder": "floor_remainder"}

IsLinear = Callable[[sympy.Expr], bool]
# Gives an affine index as a value of the type.
Plain = Callable[[sympy.Expr, torch.dtype], Any]


def in_float64(number: sympy.Expr) -> sympy.Expr:
    """Returns `number` with its ratios in float64; Triton would divide integers in float32."""
    return number.replace(
        functions.IntTrueDiv,
        lambda left, right: functions.FloatTrueDiv(functions.ToFloat(left), functions.ToFloat(right)),
    )


def with_exact_divisions(
    index: sympy.Expr, loaded: Mapping[sympy.Symbol, sympy.Expr | None], text_of: Callable[[sympy.Expr], str]
) -> sympy.Expr:
    """Returns `index` with calls of device functions in place of each `//` and `%` by a constant of expressions of
    `loaded` tiles.

    Ascend divides tiles in float32, and has no remainder. `loaded` maps the symbols of int32 tiles to a limit: each is
    from 0 to below it; None if no limit is known. `text_of` prints an index as Triton text.
    """
    limits = dict(loaded)

    def called(function: str, of: sympy.Expr, divisor: sympy.Integer, limit: sympy.Expr | None) -> sympy.Symbol:
        if isinstance(limit, sympy.Integer) and int(limit) <= LARGEST_DIVIDED:
            call = f"small_{function}({text_of(of)}, {divisor})"
        else:
            call = f"{_OF_ANY_SIZE[function]}(({text_of(of)}).to(tl.int32), tl.full([], {divisor}, tl.int32))"
        result = sympy.Symbol(f"device_functions.{call}")
        limits[result] = limit
        return result

    def exact(part: sympy.Expr) -> sympy.Expr:
        of, *numbers = part.args
        if not (of.free_symbols & limits.keys() and all(isinstance(n, sympy.Integer) and n > 0 for n in numbers)):
            return part
        limit = limits.get(of)
        if isinstance(part, functions.FloorDiv):
            return called("quotient", of, numbers[0], limit)
        if len(numbers) > 1 and numbers[0] != 1:  # (index // divisor) % modulus
            of = called("quotient", of, numbers[0], limit)
        return called("remainder", of, numbers[-1], limit)

    return index.replace(lambda part: isinstance(part, DIVISIONS), exact)


def by_operators(
    index: sympy.Expr, dtype: torch.dtype, lengths: Mapping[sympy.Symbol, Any], is_linear: IsLinear, plain: Plain
) -> Any | None:
    """Returns `index` as a value of type `dtype`, computed by operators from `plain` expressions; None if `index` is
    affine, or cannot be computed so.

    `index` is in the axes' symbols, with these `lengths`. `is_linear` says whether an expression is affine in the axes
    of the tile; `plain` gives such an expression as a value.

    `plain` is not `ops.index_expr`: that one would take its result for the graph's own node of this name, and so for a
    value within that node's bounds.
    """
    bare = index.replace(functions.Identity, lambda inner: inner) if index.has(functions.Identity) else index
    if is_wide_index(bare, dtype, lengths):
        value = in_64_bits(bare, is_linear, lambda part: index_fits_int32(part, lengths), plain)
        return OpsWrapper._unwrap(value if dtype == torch.int64 else ops.to_dtype(value, dtype))
    if is_linear(index) or not _is_computable(index, is_linear):
        return None
    whole = dtype if dtype in (torch.int32, torch.int64) else torch.int32
    value = _computed(index, whole, is_linear, plain)
    return OpsWrapper._unwrap(value if whole == dtype else ops.to_dtype(value, dtype))


def _is_computable(index: sympy.Expr, is_linear: IsLinear) -> bool:
    if is_linear(index):
        return True
    return any(isinstance(index, kinds) for kinds, _ in OPERATORS) and all(
        _is_computable(part, is_linear) for part in index.args
    )


def _computed(index: sympy.Expr, dtype: torch.dtype, is_linear: IsLinear, plain: Plain) -> Any:
    if is_linear(index):
        return plain(index, dtype)
    parts = list(index.args)
    if isinstance(index, (sympy.Add, sympy.Mul)):
        # All affine terms become one expression, and so do all constant factors.
        joined = [part for part in parts if is_linear(part) and (isinstance(index, sympy.Add) or part.is_number)]
        parts = [part for part in parts if part not in joined] + ([index.func(*joined)] if joined else [])
    operator = getattr(ops, next(name for kinds, name in OPERATORS if isinstance(index, kinds)))
    values = [_computed(part, dtype, is_linear, plain) for part in parts]
    return operator(*values) if isinstance(index, sympy.Abs) else functools.reduce(operator, values)

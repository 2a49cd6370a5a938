"""Indices that are values and do not fit int32, such as `arange(9) * 10**9`.

A kernel writes indices in its type of indices, which has all addresses: int32 for most. A value has the bits of its own
dtype, and Inductor joins what is computed of indices to one expression: where int32 does not hold that, it is computed
by operators on int64, as any other int64, of such parts as int32 holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.virtualized import ops
from torch.utils._sympy import functions
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.axes import affine
from inductor_npu.codegen.spans import bounds

_LARGEST = torch.iinfo(torch.int32).max
# Their results wrap in int32 as their operands do.
_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)

_POWERS = (sympy.Pow, functions.PowByNatural)
_REMAINDERS = (functions.ModularIndexing, functions.Mod, functions.PythonMod)
# PyTorch's own, or SymPy's: torch 2.11 has both in indices.
MINIMUM = (functions.Min, sympy.Min)
MAXIMUM = (functions.Max, sympy.Max)
OPERATORS: tuple[tuple[Any, str], ...] = (
    (sympy.Add, "add"),
    (sympy.Mul, "mul"),
    (MINIMUM, "minimum"),
    (MAXIMUM, "maximum"),
    (sympy.Abs, "abs"),
)
_STEPS = (sympy.Add, sympy.Mul, *MINIMUM, *MAXIMUM, sympy.Abs, *_POWERS)

Holds = Callable[[sympy.Expr], bool]


def is_wide(index: sympy.Expr, dtype: torch.dtype, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    """Whether `index`, a value of type `dtype`, is to be computed in int64. `lengths` are those of the axes.

    An index that is loaded lies within what it indexes; a size has the type in which the kernel is given it.
    """
    if dtype in _NARROW or not index.is_integer or index.is_Symbol:
        return False
    if any(symbol_is_type(symbol, (SymT.TMP, SymT.INDIRECT)) for symbol in index.free_symbols):
        return False
    return not fits_int32(index, lengths)


def fits_int32(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    """Whether int32 holds `index`, and what in it is divided or compared. Sums and products may wrap on the way."""
    if not _is_small(index, lengths):
        return False
    nodes = sympy.preorder_traversal(index)
    divided = (node for node in nodes if node.args and not isinstance(node, (sympy.Add, sympy.Mul, *_POWERS)))
    return all(_is_small(part, lengths) for node in divided for part in node.args)


def _is_small(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    taken = affine(index, lengths)
    if not taken.nonlinear:
        steps = [(step, lengths[symbol] - 1) for symbol, step in taken.strides.items()]
        if all(isinstance(n, (int, sympy.Integer)) for n in (taken.offset, *(n for pair in steps for n in pair))):
            reaches = [int(step) * int(last) for step, last in steps]
            lowest = int(taken.offset) + sum(reach for reach in reaches if reach < 0)
            highest = int(taken.offset) + sum(reach for reach in reaches if reach > 0)
            return lowest >= -_LARGEST and highest <= _LARGEST
    known = {symbol: int(n) for symbol, n in lengths.items() if isinstance(n, (int, sympy.Integer))}
    found = bounds(index, known) if index.free_symbols <= known.keys() else None
    if found is not None:
        return found[0] >= -_LARGEST and found[1] <= _LARGEST
    most = _magnitude(index, lengths)
    # As of a buffer's size: guarded where the sizes at hand are small.
    return most is None or SIMDScheduling.can_use_32bit_indexing(most, ())


def _magnitude(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> sympy.Expr | None:
    """What `index` is at most, whatever its sign, in terms of sizes; None if nothing is known of a function in it."""
    if isinstance(index, sympy.Integer):
        return abs(index)
    if isinstance(index, sympy.Symbol):
        most = sympy.sympify(lengths[index]) if index in lengths else index
        return most if most.is_nonnegative else sympy.Abs(most)
    if isinstance(index, _REMAINDERS):
        return _magnitude(index.args[-1], lengths)
    parts = [_magnitude(part, lengths) for part in index.args]
    if not parts or any(part is None for part in parts):
        return None
    if isinstance(index, (sympy.Mul, *_POWERS)):
        return index.func(*parts)
    if isinstance(index, (sympy.Abs, functions.FloorDiv)):
        return parts[0]
    return sympy.Add(*parts) if isinstance(index, _STEPS) else None


def in_64_bits(
    index: sympy.Expr, is_linear: Holds, fits: Holds, plain: Callable[[sympy.Expr, torch.dtype], Any]
) -> Any:
    """`index` as int64, computed by operators of `plain` expressions that fit int32."""

    def as_int64(part: sympy.Expr) -> Any:
        return ops.to_dtype(plain(part, torch.int64), torch.int64)

    def computed(part: sympy.Expr) -> Any:
        if isinstance(part, sympy.Integer):
            return ops.constant((int(part) + 2**63) % 2**64 - 2**63, torch.int64)  # int64 wraps
        if fits(part) and (is_linear(part) or not isinstance(part, _STEPS)):
            return as_int64(part)
        if isinstance(part, _POWERS) and isinstance(part.args[1], sympy.Integer) and part.args[1] > 0:
            return functools.reduce(ops.mul, [computed(part.args[0])] * int(part.args[1]))
        if isinstance(part, sympy.Abs):
            return ops.abs(computed(part.args[0]))
        if isinstance(part, functions.FloorDiv):
            return ops.floordiv(*map(computed, part.args))
        if isinstance(part, _REMAINDERS):
            number = functions.FloorDiv(*part.args[:2]) if len(part.args) > 2 else part.args[0]
            return ops.remainder(computed(number), computed(part.args[-1]))
        name = next((name for kinds, name in OPERATORS if isinstance(part, kinds)), None)
        if name is None:
            return as_int64(part)
        return functools.reduce(getattr(ops, name), map(computed, joined(part)))

    def joined(part: sympy.Expr) -> list[sympy.Expr]:
        """The arguments of `part`; of a sum, its small linear terms as one."""
        small = [term for term in part.args if fits(term) and is_linear(term)] if part.is_Add else []
        total = sympy.Add(*small)
        if len(small) < 2 or not fits(total):
            return list(part.args)
        return [*(term for term in part.args if term not in small), total]

    return computed(index)

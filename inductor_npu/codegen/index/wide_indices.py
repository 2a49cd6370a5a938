"""Indices that do not fit int32: values such as `arange(9) * 10**9`, and parts of addresses (wide_addresses.py).

A kernel computes indices in its index type, which holds every address: int32 for most kernels. A value has the bits of
its own dtype, and Inductor combines what is computed of indices into one expression. Where int32 does not hold that,
operators on int64 compute it, as any other int64, from parts that int32 holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.virtualized import V, ops
from torch.utils._sympy import functions

from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.value_range import value_range

_LARGEST = torch.iinfo(torch.int32).max
# Their results wrap in int32 as their operands do.
UP_TO_32_BITS = (torch.uint8, torch.int8, torch.int16, torch.int32)

_POWERS = (sympy.Pow, functions.PowByNatural)
_REMAINDERS = (functions.ModularIndexing, functions.Mod, functions.PythonMod)
DIVISIONS = (functions.FloorDiv, *_REMAINDERS)
# PyTorch's or SymPy's: indices of torch 2.11 have both.
MINIMUM = (functions.Min, sympy.Min)
MAXIMUM = (functions.Max, sympy.Max)
OPERATORS: tuple[tuple[Any, str], ...] = (
    (sympy.Add, "add"),
    (sympy.Mul, "mul"),
    (MINIMUM, "minimum"),
    (MAXIMUM, "maximum"),
    (sympy.Abs, "abs"),
)
_WRAPPING = (sympy.Add, sympy.Mul, *_POWERS)
_STEPS = (sympy.Add, sympy.Mul, *MINIMUM, *MAXIMUM, sympy.Abs, *_POWERS)
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

Holds = Callable[[sympy.Expr], bool]


def is_wide_index(index: sympy.Expr, dtype: torch.dtype, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    """Returns whether `index`, a value of type `dtype`, must be computed in int64.

    `index` is in the symbols of `lengths`: axes and loaded indices, each with its limit. A size or a loaded index has
    the type in which the kernel gets it; a number has its own. Dividends have 64 bits in any type: numbers of 32 bits
    that an index of 64 selects are one expression with it.
    """
    if not index.is_integer or index.is_Symbol or index.is_Integer:
        return False
    if dtype in UP_TO_32_BITS:
        return not _fit(_arguments(index, DIVISIONS), lengths)
    return not index_fits_int32(index, lengths)


def index_fits_int32(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    """Whether int32 holds `index`, and everything in it that is divided or compared. Intermediate sums and products may
    wrap.
    """
    return _is_small(index, lengths) and fits_within(index, lengths)


def fits_within(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> bool:
    """Whether int32 holds the numbers in `index`, and everything in it that is divided or compared."""
    return is_plain(index) or (_has_small_numbers(index) and _fit(_arguments(index), lengths))


@functools.lru_cache(maxsize=4096)
def is_plain(index: sympy.Expr) -> bool:
    """Whether `index` consists of sums and products of numbers that int32 holds."""
    return _has_small_numbers(index) and not _arguments(index)


def _has_small_numbers(index: sympy.Expr) -> bool:
    return all(abs(int(number)) <= _LARGEST for number in index.atoms(sympy.Integer))


def _arguments(index: sympy.Expr, kinds: Any = None) -> list[sympy.Expr]:
    """The arguments of functions in `index`: of all that do not wrap as sums and products do, or of these `kinds`."""
    nodes = (node for node in sympy.preorder_traversal(index) if node.args)
    chosen = (node for node in nodes if (isinstance(node, kinds) if kinds else not isinstance(node, _WRAPPING)))
    return [part for node in chosen for part in node.args if isinstance(part, sympy.Expr)]


def _fit(parts: Sequence[sympy.Expr], lengths: Mapping[sympy.Symbol, Any]) -> bool:
    return all(_is_small(part, lengths) for part in parts)


def limit_of(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> sympy.Integer | None:
    """Returns an int32 number that the non-negative `index` is always below; None if none is known."""
    known = {symbol: int(n) for symbol, n in lengths.items() if isinstance(n, (int, sympy.Integer))}
    found = value_range(index, known) if index.free_symbols <= known.keys() else None
    return sympy.Integer(found[1] + 1) if found is not None and found[0] >= 0 and found[1] < _LARGEST else None


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
    found = value_range(index, known) if index.free_symbols <= known.keys() else None
    if found is not None:
        return found[0] >= -_LARGEST and found[1] <= _LARGEST
    most = _magnitude(index, lengths)
    if most is None:
        return True
    # As for a buffer's size: guarded where the present sizes are small. Named terms of sizes have no bounds.
    return SIMDScheduling.can_use_32bit_indexing(V.graph.sizevars.remove_precomputed_replacements(most), ())


def _magnitude(index: sympy.Expr, lengths: Mapping[sympy.Symbol, Any]) -> sympy.Expr | None:
    """An upper bound of the magnitude of `index`, in terms of sizes; None if it contains a function without a known
    bound.
    """
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
    """Returns `index` as an int64 value, computed by operators from `plain` expressions that fit int32.

    `is_linear` says whether an expression is affine in the axes of the tile, `fits` whether int32 holds it; `plain`
    gives such an expression as a value of a dtype.
    """

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
        if isinstance(part, functions.Where):
            return ops.where(holds(part.args[0]), *map(computed, part.args[1:]))
        name = next((name for kinds, name in OPERATORS if isinstance(part, kinds)), None)
        if name is None:
            return as_int64(part)
        return functools.reduce(getattr(ops, name), map(computed, joined(part)))

    def holds(condition: Any) -> Any:
        """The comparison `condition` of indices."""
        return getattr(ops, _COMPARISONS[condition.rel_op])(computed(condition.lhs), computed(condition.rhs))

    def joined(part: sympy.Expr) -> list[sympy.Expr]:
        """The arguments of `part`; of a sum, its small affine terms as one."""
        small = [term for term in part.args if fits(term) and is_linear(term)] if part.is_Add else []
        total = sympy.Add(*small)
        if len(small) < 2 or not fits(total):
            return list(part.args)
        return [*(term for term in part.args if term not in small), total]

    return computed(index)

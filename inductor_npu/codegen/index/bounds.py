"""Comparisons of indices as bounds of loop variables: `(x >= 64) & (x < 128)` is the range from 64 to 127 of `x`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from inductor_npu.codegen.index.affine import affine, on_one_axis
from inductor_npu.codegen.index.solutions import indices_where

COMPARISONS = ("lt", "le", "gt", "ge")
CONJUNCTIONS = ("logical_and", "bitwise_and", "and_")
ALL_COMPARISONS = (*COMPARISONS, "eq", "ne")


@dataclass(frozen=True)
class Bounds:
    """The conjunction of `low <= symbol < high` over symbols of axes; either bound of a symbol may be missing.

    Bounds are integers or expressions of dynamic sizes. `exact`: the predicate equals these bounds; otherwise it
    implies them.
    """

    low: dict[sympy.Symbol, sympy.Expr]
    high: dict[sympy.Symbol, sympy.Expr]
    exact: bool = True

    @property
    def symbols(self) -> list[sympy.Symbol]:
        """The symbols that have a bound."""
        return [*self.low, *(symbol for symbol in self.high if symbol not in self.low)]

    def and_(self, other: Bounds) -> Bounds:
        """The bounds that hold where both hold."""
        low, high = dict(self.low), dict(self.high)
        for symbol, bound in other.low.items():
            low[symbol] = sympy.Max(low[symbol], bound) if symbol in low else bound
        for symbol, bound in other.high.items():
            high[symbol] = sympy.Min(high[symbol], bound) if symbol in high else bound
        return Bounds(low, high, self.exact and other.exact)

    def contrary(self) -> Bounds | None:
        """The negation of these bounds; None if that is not a bound itself."""
        if not self.exact or len(self.low) + len(self.high) != 1:
            return None
        return Bounds(dict(self.high), dict(self.low))

    def without_divisions(self, index: sympy.Expr, lengths: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
        """Returns `index` without each `//` and `%` that changes nothing within the bounds.

        `index` is in the axes' symbols, `lengths` are the axes' lengths: `(x - 1) % 16` is `x - 1` in the rest of a row
        of 17.
        """
        ranges = {}
        for symbol, length in lengths.items():
            first, end = self.low.get(symbol, sympy.S.Zero), self.high.get(symbol, length)
            if isinstance(first, sympy.Integer) and isinstance(end, (int, sympy.Integer)) and first < end:
                ranges[symbol] = ValueRanges(max(first, sympy.S.Zero), sympy.Integer(end - 1))

        def settled(division: sympy.Expr) -> sympy.Expr:
            number, divisor, *modulus = division.args
            if not (number.free_symbols <= ranges.keys() and all(arg.is_Integer for arg in (divisor, *modulus))):
                return division
            found = bound_sympy(number, ranges)
            if not (found.is_int and found.lower >= 0 and found.upper < divisor * math.prod(modulus)):
                return division
            if not modulus:
                return sympy.S.Zero
            return number if divisor == 1 else FloorDiv(number, divisor)

        return index.replace(lambda part: isinstance(part, (FloorDiv, ModularIndexing)), settled)


def difference_of(name: str, left: sympy.Expr, right: sympy.Expr) -> sympy.Expr:
    """Returns an expression that is at least 0 exactly where the comparison `name` (one of COMPARISONS) of the integers
    `left` and `right` holds.
    """
    difference = right - left if name in ("lt", "le") else left - right
    return difference - 1 if name in ("lt", "gt") else difference


def bounds_where(
    difference: sympy.Expr,
    equality: bool,
    tile: Sequence[sympy.Symbol],
    lengths: Mapping[sympy.Symbol, sympy.Expr],
) -> Bounds | None:
    """Returns where `difference` is at least 0 (with `equality`: is 0) as bounds of axes in `tile`; None if there are
    none.

    `difference` is in the axes' symbols; `lengths` are the lengths of all axes, also of those outside of the tile.
    """
    ways = (difference, -difference) if equality else (difference,)
    found = [bounds_from(on_one_axis(way, lengths), tile) for way in ways]
    result = found[0]
    for other in found[1:]:
        result = both_bounds(result, other)
    if result is not None:
        return result
    holding = indices_where(difference, equality, lengths)
    if holding is None or holding.symbol not in tile or not holding.indices or holding.is_everywhere:
        return None
    first, end = holding.indices[0], holding.indices[-1] + 1
    low = {holding.symbol: sympy.Integer(first)} if first > 0 else {}
    high = {holding.symbol: sympy.Integer(end)} if end < holding.length else {}
    return Bounds(low, high, exact=end - first == len(holding.indices)) if low or high else None


def bounds_from(difference: sympy.Expr, tile: Sequence[sympy.Symbol]) -> Bounds | None:
    """Returns `difference >= 0` as bounds of the one axis of `tile` that it depends on; None if it has no such form.

    `difference` is in the axes' symbols.
    """
    taken = affine(difference, tile)
    inside = [symbol for symbol in tile if symbol in taken.symbols]
    if len(inside) != 1 or inside[0] in taken.nonlinear:
        return None
    symbol = inside[0]
    stride = taken.strides[symbol]
    rest = sympy.expand(difference - stride * symbol)
    if rest.free_symbols & set(tile):
        return None
    if stride == 1:
        return Bounds({symbol: -rest}, {})
    if stride == -1:
        return Bounds({}, {symbol: rest + 1})
    if isinstance(stride, sympy.Integer) and isinstance(rest, sympy.Integer):
        if stride > 0:  # symbol >= ceil(-rest / stride)
            return Bounds({symbol: sympy.Integer(-(int(rest) // int(stride)))}, {})
        return Bounds({}, {symbol: sympy.Integer(int(rest) // -int(stride) + 1)})
    return None


def both_bounds(first: Bounds | None, second: Bounds | None) -> Bounds | None:
    """The bounds that hold where both hold; None if one of them is None."""
    return None if first is None or second is None else first.and_(second)

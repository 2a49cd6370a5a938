"""Index expressions as affine functions of loop variables: an offset, and a stride for each variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy


@dataclass(frozen=True)
class Affine:
    """An index expression: `offset + sum(strides[symbol] * symbol)`, in elements.

    `nonlinear` are the symbols on which it depends in any other way; they are not in `strides`, and their terms are in
    neither.
    """

    strides: Mapping[sympy.Symbol, sympy.Expr]
    nonlinear: frozenset[sympy.Symbol]
    offset: sympy.Expr

    @property
    def symbols(self) -> set[sympy.Symbol]:
        """The symbols on which the expression depends."""
        return {*self.strides, *self.nonlinear}


def affine(expr: sympy.Expr, symbols: Iterable[sympy.Symbol]) -> Affine:
    """Returns `expr` as an affine function of `symbols`; other symbols are constants, and may occur in strides and
    offset.
    """
    return _affine(sympy.sympify(expr), frozenset(symbols))


# Each pass over a kernel's operators asks for the same addresses, and so do the parts of an index.
@lru_cache(maxsize=4096)
def _affine(expr: sympy.Expr, symbols: frozenset[sympy.Symbol]) -> Affine:
    strides: dict[sympy.Symbol, sympy.Expr] = {}
    nonlinear: set[sympy.Symbol] = set()
    offset: list[sympy.Expr] = []
    for term in sympy.Add.make_args(sympy.expand(expr)):
        among = term.free_symbols & symbols
        if not among:
            offset.append(term)
            continue
        symbol = next(iter(among))
        stride = term / symbol
        if len(among) == 1 and not stride.free_symbols & symbols:
            strides[symbol] = strides.get(symbol, sympy.S.Zero) + stride
        else:
            nonlinear |= among
    for symbol in nonlinear:
        strides.pop(symbol, None)
    return Affine(strides, frozenset(nonlinear), sympy.Add(*offset))


def on_one_axis(difference: sympy.Expr, lengths: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """Returns an expression in one axis that is at least 0 exactly where `difference` is, if the other axes cannot
    decide it; else `difference`.

    `difference` is in the axes' symbols, `lengths` are the axes' lengths in elements. In rows of 8, `8 * y + x - 16`,
    which is `8 * y + x >= 16`, becomes `y - 2`.
    """
    taken = affine(difference, lengths)
    if taken.nonlinear or len(taken.strides) < 2 or not isinstance(taken.offset, sympy.Integer):
        return difference
    steps = {symbol: int(step) for symbol, step in taken.strides.items() if isinstance(step, sympy.Integer)}
    if len(steps) < len(taken.strides) or not all(
        isinstance(lengths[symbol], (int, sympy.Integer)) for symbol in steps
    ):
        return difference
    widest = max(steps, key=lambda symbol: abs(steps[symbol]))
    reaches = [step * (int(lengths[symbol]) - 1) for symbol, step in steps.items() if symbol != widest]
    lowest = int(taken.offset) + sum(reach for reach in reaches if reach < 0)
    highest = int(taken.offset) + sum(reach for reach in reaches if reach > 0)
    step = abs(steps[widest])
    if lowest // step != highest // step:
        return difference
    return (widest if steps[widest] > 0 else -widest) + lowest // step

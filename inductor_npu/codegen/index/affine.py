"""Index expressions as affine functions of loop variables: an offset, and a stride for each variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy


@dataclass(frozen=True)
class Affine:
    """An address: `offset + sum(strides[symbol] * symbol)`, and the symbols that it depends on in any other way."""

    strides: Mapping[sympy.Symbol, sympy.Expr]
    nonlinear: frozenset[sympy.Symbol]
    offset: sympy.Expr

    @property
    def symbols(self) -> set[sympy.Symbol]:
        return {*self.strides, *self.nonlinear}


def affine(expr: sympy.Expr, symbols: Iterable[sympy.Symbol]) -> Affine:
    """Takes `expr` apart with respect to `symbols`; other symbols are constants."""
    return _affine(sympy.sympify(expr), frozenset(symbols))


# Each loop over a kernel's operators asks for the same addresses again, and so do the parts of an index.
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
    """What is at least 0 where `difference` is, in terms of one axis, if the others decide nothing: of rows of 8,
    `8 * y + x >= 16` is `y >= 2`. `lengths` are those of the axes.
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

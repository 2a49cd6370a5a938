"""Where a comparison of indices holds that is no linear function of the axis it depends on: tried index by index.

An adaptive pool's windows end at `(8 * x + 12) // 5`: which of them have a third element no formula says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy

from inductor_npu.codegen.index.affine import affine

# Axes longer than this are not tried.
_LONGEST = 256


@dataclass(frozen=True)
class Solutions:
    """The `indices`, in ascending order, along the axis `symbol` of this length at which a comparison holds."""

    symbol: sympy.Symbol
    length: int
    indices: tuple[int, ...]

    @property
    def is_everywhere(self) -> bool:
        return len(self.indices) == self.length


def indices_where(
    difference: sympy.Expr, equality: bool, lengths: Mapping[sympy.Symbol, sympy.Expr]
) -> Solutions | None:
    """Where `difference` is at least 0, or with `equality` 0. None if it is a linear function, or depends on more than
    one axis, or that axis, of these `lengths`, is too long or of a length that is not known.
    """
    symbols = difference.free_symbols
    if len(symbols) != 1 or not symbols <= lengths.keys() or not affine(difference, symbols).nonlinear:
        return None
    (symbol,) = symbols
    length = lengths[symbol]
    if not isinstance(length, (int, sympy.Integer)) or length > _LONGEST:
        return None
    return _tried(difference, equality, symbol, int(length))


@lru_cache(maxsize=1024)
def _tried(difference: sympy.Expr, equality: bool, symbol: sympy.Symbol, length: int) -> Solutions | None:
    numbers = [difference.subs(symbol, index) for index in range(length)]
    if not all(isinstance(number, sympy.Integer) for number in numbers):
        return None
    holding = (index for index, number in enumerate(numbers) if (number == 0 if equality else number >= 0))
    return Solutions(symbol, length, tuple(holding))

"""Solves comparisons that are not affine in their axis: evaluates them index by index.

The windows of an adaptive pool end at `(8 * x + 12) // 5`. No formula says which of them have a third element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy

from inductor_npu.codegen.index.affine import affine

# Longer axes are not evaluated; 64 and 1024 make the same kernels of the corpus (`python -m corpus.thresholds`).
_LONGEST = 256


@dataclass(frozen=True)
class Solutions:
    """The `indices`, in ascending order, at which a comparison holds along the axis `symbol` of `length` elements."""

    symbol: sympy.Symbol
    length: int
    indices: tuple[int, ...]

    @property
    def is_everywhere(self) -> bool:
        """Whether the comparison holds at every index of the axis."""
        return len(self.indices) == self.length


def indices_where(
    difference: sympy.Expr, equality: bool, lengths: Mapping[sympy.Symbol, sympy.Expr]
) -> Solutions | None:
    """Returns where `difference` is at least 0 (with `equality`: is 0).

    `difference` is in the symbols of `lengths`. Returns None if it is affine, depends on more than one axis, or if the
    axis is too long or its length is dynamic.
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

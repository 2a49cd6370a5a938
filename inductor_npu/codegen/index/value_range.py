"""The least and the largest value of an index expression."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy


def value_range(expr: sympy.Expr, lengths: Mapping[sympy.Symbol, int]) -> tuple[int, int] | None:
    """Returns the least and the largest value of `expr` where each symbol is from 0 to below its length; None if they
    are unknown.
    """
    found = bound_sympy(expr, {symbol: ValueRanges(0, length - 1) for symbol, length in lengths.items()})
    if not all(isinstance(end, (int, sympy.Integer)) for end in (found.lower, found.upper)):
        return None
    return int(found.lower), int(found.upper)

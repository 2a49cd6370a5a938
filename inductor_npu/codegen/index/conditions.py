"""Predicates on indices, as far as they are known, and the bounds of axes that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy

from inductor_npu.codegen.index.bounds import Bounds, bounds_where


@dataclass(frozen=True)
class Condition:
    """A predicate on indices: `difference`, in the axes' symbols, is at least 0 (with `equality`: is 0). Or, where
    there are `parts`, the conjunction of both, each None where nothing is known of it.
    """

    difference: sympy.Expr = sympy.S.Zero
    equality: bool = False
    parts: tuple[Condition | None, ...] = ()


def implied_bounds(
    condition: Condition | None,
    tile: Sequence[sympy.Symbol],
    lengths: Mapping[sympy.Symbol, sympy.Expr],
    holds: Callable[[sympy.Expr], bool] = lambda end: True,
) -> Bounds | None:
    """Returns the bounds of axes in `tile` that `condition` equals or implies; None if there are none.

    `lengths` are those of all axes. Bounds with an end that the index type does not hold (`holds`) do not count.
    """
    if condition is None:
        return None
    if condition.parts:
        first, second = (
            implied_bounds(part, tile, lengths, holds) or Bounds({}, {}, exact=False) for part in condition.parts
        )
        both = first.and_(second)
        return both if both.symbols else None
    bounds = bounds_where(condition.difference, condition.equality, tile, lengths)
    if bounds is None or not all(map(holds, [*bounds.low.values(), *bounds.high.values()])):
        return None
    return bounds

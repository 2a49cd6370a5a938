"""Where comparisons of indices hold that are no linear functions of an axis."""

from __future__ import annotations

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from inductor_npu.codegen.index.bounds import Bounds, bounds_where
from inductor_npu.codegen.index.solutions import indices_where

X, Y = sympy.symbols("x y", integer=True, nonnegative=True)
LENGTHS = {Y: sympy.Integer(24), X: sympy.Integer(5)}
# That a window of an adaptive pool has a third element.
THIRD = FloorDiv(8 * X + 12, 5) - FloorDiv(8 * X, 5) - 3


def test_a_comparison_is_tried_index_by_index():
    holding = indices_where(THIRD, False, LENGTHS)
    assert holding is not None
    assert (holding.symbol, holding.indices, holding.is_everywhere) == (X, (1, 3), False)


def test_a_comparison_may_hold_everywhere():
    holding = indices_where(THIRD + 1, False, LENGTHS)
    assert holding is not None and holding.is_everywhere


def test_what_is_linear_or_on_several_axes_or_of_unknown_length_is_not_tried():
    assert indices_where(2 * X - 3, False, LENGTHS) is None
    assert indices_where(FloorDiv(X + Y, 5) - 1, False, LENGTHS) is None
    assert indices_where(THIRD, False, {X: sympy.Symbol("s0", integer=True)}) is None


def test_indices_side_by_side_are_bounds():
    second = ModularIndexing(X + 1, 1, 4)
    assert bounds_where(second, True, [Y, X], LENGTHS) == Bounds({X: 3}, {X: 4})


def test_indices_with_others_between_lie_within_bounds():
    assert bounds_where(THIRD, False, [Y, X], LENGTHS) == Bounds({X: 1}, {X: 4}, exact=False)


def test_bounds_are_those_of_axes_of_the_tile():
    assert bounds_where(THIRD, False, [Y], LENGTHS) is None

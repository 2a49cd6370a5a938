"""Compares two strides that are terms of dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from torch._inductor.virtualized import V

IsAtLeast = Callable[[Any, Any], bool]


def without_reciprocals(is_at_least: IsAtLeast) -> IsAtLeast:
    """Inductor's comparison of strides, also of such as (h + 4) * (w + 4) and c * (h + 4) * (w + 4), those of a padded
    image.

    Where one is less than the other by the sizes at hand, Inductor still asks for the remainder of their division.
    SymPy writes that of such products with reciprocals, of which torch 2.13 has no bounds (ValueRangeError); torch 2.14
    asks in another way.
    """

    def compared(left: Any, right: Any) -> bool:
        if right == 0 or not _has_reciprocals(sympy.sympify(left) % right):
            return is_at_least(left, right)
        return V.graph.sizevars.guard_or_false(sympy.Ge(left, right))

    return compared


def _has_reciprocals(remainder: sympy.Expr) -> bool:
    return any(power.exp.is_negative for power in remainder.atoms(sympy.Pow))

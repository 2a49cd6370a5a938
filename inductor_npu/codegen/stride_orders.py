"""Which of two strides is the larger, where both are terms of dynamic sizes."""

from __future__ import annotations

from typing import Any

import sympy


def compare_without_reciprocals() -> None:
    """Has Inductor compare strides such as (h + 4) * (w + 4) and c * (h + 4) * (w + 4), those of a padded image.

    Where one is less than the other by the sizes at hand, Inductor still asks for the remainder of their division.
    SymPy writes that of such products with reciprocals, of which torch 2.13 has no bounds (ValueRangeError); torch 2.14
    asks in another way.
    """
    from torch._inductor.ir import Layout
    from torch._inductor.virtualized import V

    original = getattr(Layout, "_stride_expr_ge_or_false", None)
    if original is None or "statically_known_multiple_of" in original.__code__.co_names:
        return

    def is_at_least(left: Any, right: Any) -> bool:
        if right == 0 or not _has_reciprocals(sympy.sympify(left) % right):
            return original(left, right)
        return V.graph.sizevars.guard_or_false(sympy.Ge(left, right))

    Layout._stride_expr_ge_or_false = staticmethod(is_at_least)


def _has_reciprocals(remainder: sympy.Expr) -> bool:
    return any(power.exp.is_negative for power in remainder.atoms(sympy.Pow))

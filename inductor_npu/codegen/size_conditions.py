"""Conditions on sizes that are used as numbers: `x * (x.shape[0] % 2 == 0)`, `torch.full((3,), n >= k)`.

Inductor hands them on as indices, which they are not: no sum has a relation among its terms. The host works each out
before the launch, as it does other terms of sizes, and the kernel is given 1 or 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

# What a kernel is given: sizes, and numbers that only the data say.
_ARGUMENTS = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT, SymT.FLOAT, SymT.UNBACKED_FLOAT)


def as_number(index: sympy.Basic) -> sympy.Expr:
    """`index` without conditions on sizes: a condition is 1 or 0, a choice by conditions the number that is chosen."""
    number = index if isinstance(index, sympy.Expr) else sympy.Piecewise((sympy.S.One, index), (sympy.S.Zero, True))
    if not number.has(sympy.Piecewise):
        return number
    return number.replace(_is_choice_by_sizes, V.graph.sizevars.lookup_precomputed_size)


def replace_in(nodes: Iterable[Any]) -> None:
    """Replaces what is `as_number` another index in the loops of scheduler nodes, before a kernel is written for them.

    The kernel must not see a condition: where one never holds, Inductor's bounds of its conversion to bool say that it
    always does (torch 2.13: `sympy.false != 0`).
    """
    for node in nodes:
        indices = node._body.indexing_exprs
        indices.update({name: as_number(index) for name, index in indices.items()})


def _is_choice_by_sizes(part: sympy.Basic) -> bool:
    return isinstance(part, sympy.Piecewise) and all(symbol_is_type(symbol, _ARGUMENTS) for symbol in part.free_symbols)

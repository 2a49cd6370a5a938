"""Terms of dynamic sizes in indices, in the one form in which sizes can be compared and their bounds are known.

Inductor gives some terms a name (`ps0`); the host computes the value before the launch, and Inductor's bounds know
nothing else of it. It also passes predicates that are used as numbers as indices, as in `x * (x.shape[0] % 2 == 0)` or
`torch.full((3,), n >= k)`. They are not: a sum cannot have a relation among its terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

# The hint for a size that depends on data.
_UNKNOWN_LENGTH = 8192

# The arguments of a kernel: sizes, and numbers that depend on data.
_ARGUMENTS = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT, SymT.FLOAT, SymT.UNBACKED_FLOAT)


def written_out(index: sympy.Basic) -> sympy.Expr:
    """Returns `index` in terms of sizes.

    A predicate on sizes becomes a number, 1 or 0. The host computes it, and each choice by predicates on sizes; only
    these keep a name.
    """
    sizes = V.graph.sizevars
    index = sizes.remove_precomputed_replacements(index)
    number = index if isinstance(index, sympy.Expr) else sympy.Piecewise((sympy.S.One, index), (sympy.S.Zero, True))
    return number.replace(_is_choice_by_sizes, sizes.lookup_precomputed_size) if number.has(sympy.Piecewise) else number


def write_out_in(nodes: Iterable[Any]) -> None:
    """Has the indices in the loops of scheduler nodes `written_out`; call it before a kernel is written for them.

    The kernel must not see a predicate. Where one never holds, Inductor's bounds of its conversion to bool say that it
    always does (torch 2.13: `sympy.false != 0`).
    """
    for node in nodes:
        indices = node._body.indexing_exprs
        indices.update({name: written_out(index) for name, index in indices.items()})


def _is_choice_by_sizes(part: sympy.Basic) -> bool:
    return isinstance(part, sympy.Piecewise) and all(symbol_is_type(symbol, _ARGUMENTS) for symbol in part.free_symbols)


def hint(expr: Any) -> int:
    """Returns the length, in elements, that a dynamic size is expected to have; a static one is returned as it is."""
    sizes = V.graph.sizevars
    if hasattr(sizes, "optimization_hint"):
        return int(sizes.optimization_hint(expr))
    return int(sizes.size_hint(expr, fallback=_UNKNOWN_LENGTH))  # torch 2.11

"""Whether an address stays inside its buffer."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds


def stays_inside(
    index: sympy.Expr,
    lengths: Mapping[sympy.Symbol, sympy.Expr],
    size: sympy.Expr,
    bounds: Bounds | None = None,
) -> bool:
    """Returns whether `index` is known to be from 0 to `size` - 1 for all indices below `lengths`, or for those of them
    within `bounds`.

    `index` and `size` are in elements, `index` in the symbols of `lengths`. The answer is False if `index` is not
    affine in these symbols, or depends on other loaded indices.
    """
    taken = affine(index, lengths)
    loaded = (symbol for symbol in taken.offset.free_symbols if symbol_is_type(symbol, (SymT.TMP, SymT.INDIRECT)))
    if taken.nonlinear or any(loaded):
        return False
    first = last = taken.offset
    for symbol, stride in taken.strides.items():
        low, end = sympy.S.Zero, lengths[symbol]
        if bounds is not None:
            low, end = bounds.low.get(symbol, low), bounds.high.get(symbol, end)
        ends = stride * low, stride * (end - 1)
        first, last = first + sympy.Min(*ends), last + sympy.Max(*ends)
    if all(isinstance(number, sympy.Integer) for number in (first, last)) and isinstance(size, (int, sympy.Integer)):
        return bool(first >= 0 and last < size)
    sizes = V.graph.sizevars
    return sizes.statically_known_leq(0, first) and sizes.statically_known_lt(last, size)

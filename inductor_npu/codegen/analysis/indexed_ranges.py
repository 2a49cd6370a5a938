"""Loads by loaded indices that read all that the indices may point to, and gather the elements on chip.

Ascend's compiler would compute and move an address such as `200 * y + index[y, x]` element by element. Where the index
can only point into a short range (a row of 200 elements, a small table), the load reads that range as a whole, and
`tl.gather` picks from it.

This file only looks at addresses. `gather_by_index.py` writes the kernels' text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from inductor_npu.codegen.analysis.trace import Symbols
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.providers import current_target

# Roughly the elements of one tile, which share the cost of a range. A quarter and four times as many make the same
# kernels of the corpus (`python -m corpus.thresholds`).
_TILE = 4096


@dataclass(frozen=True)
class IndexedRange:
    """What loaded indices may point to: `rest` elements from address `start` on.

    An element has the position `position` in the range, an expression in the symbols of loaded indices and axes. `rows`
    are the other axes, on which `start` depends.
    """

    start: sympy.Expr
    position: sympy.Expr
    rest: int
    rows: Symbols

    def length(self, item_size: int) -> int:
        """Elements, of `item_size` bytes, that the tile has for one row: a power of two, and whole bursts."""
        return max(1 << (self.rest - 1).bit_length(), current_target().burst_bytes // item_size)


def indexed_range(
    address: sympy.Expr,
    lengths: Mapping[sympy.Symbol, sympy.Expr],
    loaded: Mapping[sympy.Symbol, sympy.Expr],
    depends: Symbols,
    item_size: int,
) -> IndexedRange | None:
    """Returns the range of a load from `address`; None if there is none, or if single elements are cheaper.

    `address` is in elements, in the symbols of `lengths` (all axes) and `loaded`. `loaded` gives a limit that each
    loaded index is below; loaded indices vary along the axes `depends`. `item_size` is in bytes.
    """
    chip = current_target()
    taken = affine(address, [*loaded, *lengths])
    indices = [symbol for symbol in loaded if symbol in taken.strides]
    if taken.nonlinear or not indices:
        return None
    start, position, rest, lowest, rows = taken.offset, sympy.S.Zero, 1, 0, set[sympy.Symbol]()
    axes = sorted(
        (symbol for symbol in taken.strides if symbol not in loaded), key=lambda axis: _size(taken.strides[axis])
    )
    for symbol in [*indices, *axes]:
        step, length = taken.strides[symbol], loaded.get(symbol, lengths.get(symbol))
        is_row = symbol in axes and _size(step) >= rest and rest * item_size >= chip.burst_bytes
        if is_row:
            start, rows = start + symbol * step, rows | {symbol}
            continue
        if not (isinstance(step, sympy.Integer) and isinstance(length, (int, sympy.Integer))):
            return None
        if step == 1 and symbol in axes and symbol not in depends and length >= chip.shortest_row:
            return None  # rows that are read one by one
        reach = int(step) * (int(length) - 1)
        position, rest, lowest = position + symbol * step, rest + abs(reach), lowest + min(reach, 0)
    wanted = math.prod(hint(lengths[symbol]) for symbol in depends.union(axes) - rows)
    indexed = IndexedRange(start + lowest, position - lowest, rest, frozenset(rows))
    is_dearer = rest * item_size > chip.indirect_access_cycles * chip.device_bytes_per_cycle * min(wanted, _TILE)
    return None if is_dearer or indexed.length(item_size) * item_size > chip.largest_range else indexed


def _size(step: sympy.Expr) -> float:
    """The distance between neighbours, in elements; unknown steps count as the largest."""
    return abs(int(step)) if isinstance(step, sympy.Integer) else math.inf

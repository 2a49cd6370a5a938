"""Subdomains at the start or the end of a row that are too short to be copied by themselves.

A padding by one element leaves subdomains of 4 bytes in each row, where memory is read and written in blocks of 32.
Such a short row end is computed as if it were as long as a block, as far as memory may be read there, and written
first. The same program then writes the adjacent subdomain over the excess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sympy
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.trace import Access
from inductor_npu.codegen.index.inside import stays_inside
from inductor_npu.providers import current_target

# A row that is on chip as a whole takes at most this fraction of the Unified Buffer, with elements of 32 bits. A sixth
# or a 24th makes the same kernels of the corpus (`python -m corpus.thresholds`).
_PART_FOR_A_ROW = 12


@dataclass(frozen=True)
class RowPart:
    """Elements `start` to `end` (exclusive) of a row; `wide` is the range that is computed and written instead."""

    start: int
    end: int
    wide: tuple[int, int]

    @property
    def is_short(self) -> bool:
        """Whether the part is widened."""
        return self.wide != (self.start, self.end)


def row_parts(split_points: Sequence[int], length: int, shortest: int) -> list[RowPart]:
    """Returns the parts between `split_points` of a row of `length` elements, in the order in which they must be
    written; empty if there is no such order, or the row is too short or too long.

    In that order each element is written last by its own part. Parts of fewer than `shortest` elements are widened:
    towards the end of the row, or from its end.
    """
    if not shortest <= length <= current_target().unified_buffer // (4 * _PART_FOR_A_ROW):
        return []
    ends = [0, *sorted(split_points), length]
    forwards, backwards, whole = [], [], []
    for start, end in pairwise(ends):
        if end - start >= shortest:
            whole.append(RowPart(start, end, (start, end)))
        elif start + shortest <= length:
            forwards.append(RowPart(start, end, (start, start + shortest)))
        else:
            backwards.append(RowPart(start, end, (end - shortest, end)))
    for order in ([*backwards[::-1], *forwards, *whole], [*forwards, *backwards[::-1], *whole]):
        if _is_right(order):
            return order
    return []


def _is_right(order: Sequence[RowPart]) -> bool:
    """Whether no part overwrites one that is written before it."""
    return all(
        later.wide[1] <= part.start or part.end <= later.wide[0]
        for number, part in enumerate(order)
        for later in order[number + 1 :]
    )


def may_be_written_twice(nodes: Sequence[Any]) -> bool:
    """Returns whether results of `nodes` may be written where they are overwritten later: each has its own address, and
    the memory is not read in between.
    """
    return not any(output.get_mutations() or output.get_aliases() for node in nodes for output in node.get_outputs())


def stay_inside(accesses: Sequence[Access], axes: Sequence[Axis]) -> bool:
    """Returns whether all loads among `accesses`, along `axes` of static lengths, stay within their buffers."""
    lengths: dict[sympy.Symbol, sympy.Expr] = {axis.symbol: axis.length for axis in axes}
    return all(access.is_store or _is_inside(access, lengths) for access in accesses)


def _is_inside(access: Access, lengths: dict[sympy.Symbol, sympy.Expr]) -> bool:
    size = V.graph.get_buffer(access.buffer).get_layout().storage_size()
    return not access.indirect and stays_inside(access.index, lengths, size)

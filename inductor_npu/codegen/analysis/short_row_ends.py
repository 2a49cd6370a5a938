"""Rows whose first or last elements are a piece of their own, but too short to be copied by themselves.

A padding by one element leaves pieces of 4 bytes in each row, where memory is read and written in blocks of 32. Such an
edge is computed as if it were as long as a block, as far as it may be read there, and written first. The program that
wrote it then writes what lies beside it, over what it wrote too much.
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

# A row that is kept on chip as a whole takes at most this part of the Unified Buffer, with elements of 32 bits.
_PART_FOR_A_ROW = 12


@dataclass(frozen=True)
class Span:
    """Elements `start` to `end` of a row; `wide` is what of the row is computed and written in their stead."""

    start: int
    end: int
    wide: tuple[int, int]

    @property
    def is_short(self) -> bool:
        return self.wide != (self.start, self.end)


def spans_of(cuts: Sequence[int], length: int, shortest: int) -> list[Span]:
    """The spans between `cuts` of a row of `length` elements, in the order in which they are to be written so that each
    element is written last by its own span; none if there is no such order, or the row is too short or too long.

    Spans shorter than `shortest` are widened: towards the end of the row, or from its end.
    """
    if not shortest <= length <= current_target().unified_buffer // (4 * _PART_FOR_A_ROW):
        return []
    ends = [0, *sorted(cuts), length]
    forwards, backwards, whole = [], [], []
    for start, end in pairwise(ends):
        if end - start >= shortest:
            whole.append(Span(start, end, (start, end)))
        elif start + shortest <= length:
            forwards.append(Span(start, end, (start, start + shortest)))
        else:
            backwards.append(Span(start, end, (end - shortest, end)))
    for order in ([*backwards[::-1], *forwards, *whole], [*forwards, *backwards[::-1], *whole]):
        if _is_right(order):
            return order
    return []


def _is_right(order: Sequence[Span]) -> bool:
    """Whether no span is overwritten by one behind it."""
    return all(
        later.wide[1] <= span.start or span.end <= later.wide[0]
        for place, span in enumerate(order)
        for later in order[place + 1 :]
    )


def may_be_written_twice(nodes: Sequence[Any]) -> bool:
    """Whether results of `nodes` may be written where they are overwritten later: each by its own address, and to
    memory that is not read meanwhile.
    """
    return not any(output.get_mutations() or output.get_aliases() for node in nodes for output in node.get_outputs())


def stay_inside(accesses: Sequence[Access], axes: Sequence[Axis]) -> bool:
    """Whether all loads among `accesses`, along `axes` of known lengths, are within their buffers."""
    lengths: dict[sympy.Symbol, sympy.Expr] = {axis.symbol: axis.length for axis in axes}
    return all(access.is_store or _is_inside(access, lengths) for access in accesses)


def _is_inside(access: Access, lengths: dict[sympy.Symbol, sympy.Expr]) -> bool:
    size = V.graph.get_buffer(access.buffer).get_layout().storage_size()
    return not access.indirect and stays_inside(access.index, lengths, size)

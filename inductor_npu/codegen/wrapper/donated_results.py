"""Saved tensors that AOTAutograd donates to the backward graph, which may overwrite them.

AOTAutograd donates a saved tensor that shares no storage with an argument, a result or a gradient. It asks the fake
tensors of the graph before Inductor compiles it. Rewrites of the graph, equal values that become one, and lowerings
that return their operand put two results of the compiled graph into one buffer all the same. Which buffer a result is
in is known here, when the graph returns: a donated tensor that shares memory is returned as a copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

COPY = "clone_preserve_strides"
IMPORT = f"from torch._inductor.utils import {COPY}"


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies. buffers: whose memory it may lie in; offset, in elements, from the start of the only one,
    None if the code that is generated does not tell.
    """

    buffers: frozenset[str]
    offset: Any
    size: Sequence[sympy.Expr]
    stride: Sequence[sympy.Expr]
    dtype: torch.dtype


def copied() -> list[int]:
    """The indices of the results of the graph that is generated now (`V.graph`) which have to be copies."""
    graph = V.graph
    if graph.is_backward or not graph.bw_donated_idxs:
        return []
    known = torch._guards.TracingContext.get().fw_metadata
    results = range(len(graph.graph_outputs))
    saved = results[known.tensors_saved_for_backwards_slice]
    # The backward graph has saved sizes before saved tensors, the forward graph behind them.
    donated = [saved[index - known.num_symints_saved_for_bw] for index in graph.bw_donated_idxs]
    places = {index: place for index in results if (place := _place(graph.graph_outputs[index])) is not None}
    not_ours = {*graph.graph_inputs, *graph.constants}
    copies: list[int] = []
    for index in (index for index in donated if index in places):
        others = [places[other] for other in places if other != index and other not in copies]
        if not not_ours.isdisjoint(places[index].buffers) or any(_meet(places[index], other) for other in others):
            copies.append(index)
    return copies


def _place(result: Any) -> _Place | None:
    """Where the tensor `result` lies; None for results of other types."""
    layout = result.maybe_get_layout() if isinstance(result, ir.IRNode) else None
    if not isinstance(layout, ir.Layout):
        return None
    return _Place(_memory(result.get_name()), _offset(result), layout.size, layout.stride, layout.dtype)


def _memory(name: str) -> frozenset[str]:
    """The buffers, arguments and constants of the graph in whose memory the buffer `name` may lie."""
    waiting, seen, roots = [name], {name}, set()
    while waiting:
        each = waiting.pop()
        buffer = V.graph.try_get_buffer(each)
        is_computed = isinstance(buffer, ir.OperationBuffer)
        below = [*buffer.get_inputs_that_alias_output(), *buffer.get_mutation_names()] if is_computed else []
        if not below:
            roots.add(each)
        waiting += [other for other in below if other not in seen]
        seen.update(below)
    return frozenset(roots)


def _offset(result: Any) -> Any:
    """How many elements behind the start of its buffer `result` lies; None if that is not known."""
    while isinstance(result, ir.MutableBox):
        result = result.data
    layout = result.get_layout()
    if isinstance(result, ir.ReinterpretView):
        below = _offset(result.data)
        return None if below is None or result.data.get_dtype() != result.get_dtype() else below + layout.offset
    if isinstance(layout, ir.NonOwningLayout):
        return _offset(layout.view)
    computed = isinstance(result, ir.OperationBuffer) and not result.get_inputs_that_alias_output()
    return sympy.S.Zero if computed and not isinstance(layout, ir.MutationLayoutSHOULDREMOVE) else None


def _meet(one: _Place, other: _Place) -> bool:
    """Whether two tensors may have a byte in common."""
    if one.buffers.isdisjoint(other.buffers):
        return False
    if len(one.buffers | other.buffers) > 1 or one.offset is None or other.offset is None or one.dtype != other.dtype:
        return True
    known = V.graph.sizevars.statically_known_leq
    if known(_end(one), other.offset) or known(_end(other), one.offset):
        return False
    return not any(_lie_in_other_columns(one, other, row) for row in {*one.stride}.intersection(other.stride))


def _end(place: _Place) -> sympy.Expr:
    """The offset behind the last element of `place`."""
    return place.offset + 1 + sum((size - 1) * step for size, step in zip(place.size, place.stride, strict=True))


def _lie_in_other_columns(one: _Place, other: _Place, row: sympy.Expr) -> bool:
    """Whether the buffer is a matrix with rows of `row` elements, of which the two have different columns: as query,
    key and value of one product.
    """
    first, second = _columns(one, row), _columns(other, row)
    return first is not None and second is not None and (first[1] <= second[0] or second[1] <= first[0])


def _columns(place: _Place, row: sympy.Expr) -> tuple[int, int] | None:
    """The columns, from and to, that `place` has of a matrix with rows of `row` elements; None if that is not known."""
    of_rows = V.graph.sizevars.statically_known_multiple_of
    within = [axis for axis in zip(place.size, place.stride, strict=True) if not of_rows(axis[1], row)]
    facts = sympy.Tuple(row, place.offset, *itertools.chain(*within))
    if not all(fact.is_Integer for fact in facts):
        return None
    begin = int(place.offset % row)
    end = begin + 1 + int(sum((size - 1) * step for size, step in within))
    return (begin, end) if end <= row else None

"""Writes at addresses that the data say, within rows so short that each element may look for what is written to it.

A store by a loaded index is the work of the scalar core: some 128 cycles for each element, by any program at any time,
so that sums need atomic additions. Where a row is short, the other way round is cheaper and needs neither: each element
of the row compares all indices with its own place, and selects or adds up what is meant for it. `scatter_add(x, 1,
index, y)` becomes `x + sum(where(index == place, y, 0))`, a loop like any other, which takes in what `x` and `y` are
made of.

Of several values that are written to one place the last one stays, as in eager. Types of half precision are added up
in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import (
    along,
    called,
    convert,
    counted,
    filled,
    from_start,
    in_place_of,
    is_on_npu,
    memory_of,
)
from inductor_npu.providers import current_target
from inductor_npu.tiling.cost import longest_compared_row
from inductor_npu.tiling.limits import EXACT_IN_FLOAT32

_HALF = (torch.float16, torch.bfloat16)

_aten = torch.ops.aten
_JOINS = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)


def longest_row() -> int:
    """Elements of the longest row for which looking at all indices takes a quarter of the cycles of storing an element
    by each of them: on the embedded NPU the scalar core is not that slow.
    """
    return longest_compared_row(current_target()) // 4


@dataclass(frozen=True)
class Scatter:
    """Values of `source` (a node, or a number) that are written, or with `adds` added, to `into`, whose axes are some
    outer ones, the `places` that indices say, and some inner ones. In `source` stand `count` axes for the indices in
    the stead of the places. `indices` has a node for each axis of places; they may lack outer axes. `checked` makes of
    the numbers of the places and an index a node of the index, checked to be one of them.
    """

    into: torch.fx.Node
    first: int
    places: int
    count: int
    indices: Sequence[torch.fx.Node]
    source: Any
    adds: bool
    checked: Callable[[torch.fx.Graph, torch.fx.Node, torch.fx.Node, int], torch.fx.Node]

    @property
    def row(self) -> int:
        """Elements among which an index chooses."""
        return math.prod(self.into.meta["val"].shape[self.first : self.first + self.places])

    @property
    def written(self) -> int:
        """Indices for each such row."""
        shapes = [index.meta["val"].shape for index in self.indices]
        if len(shapes[0]) > self.count:  # of all axes
            return shapes[0][self.first]
        return math.prod(torch.broadcast_shapes(*shapes))


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the scatters of `graph` on `npu` into short rows; returns how many there were."""
    rewritten = 0
    for target, taken_apart in _SCATTERS.items():
        for node in graph.find_nodes(op="call_function", target=target):
            scatter = taken_apart(node) if _is_known(node) else None
            if scatter is not None and _pays(scatter):
                _rewrite(graph, node, scatter)
                rewritten += 1
    return rewritten


def _is_known(node: torch.fx.Node) -> bool:
    """Whether all operands are tensors on npu with elements, of known sizes and types that can be compared."""
    operands = [operand.meta["val"] for operand in node.all_input_nodes]
    if not all(map(is_on_npu, operands)) or node.meta["val"].is_complex():
        return False
    sizes = [size for operand in operands for size in operand.shape]
    return all(isinstance(size, int) and size > 0 for size in sizes)


def _scatter(node: torch.fx.Node, adds: bool = False) -> Scatter | None:
    arguments: tuple[Any, ...] = node.args
    into, dim, index, source = arguments[:4]
    target, indices = into.meta["val"], index.meta["val"]
    if node.kwargs or target.dim() == 0 or target.dim() != indices.dim():
        return None
    dim %= target.dim()
    others = [[*each.shape[:dim], *each.shape[dim + 1 :]] for each in (target, indices)]
    if others[0] != others[1] or (isinstance(source, torch.fx.Node) and source.meta["val"].shape != indices.shape):
        return None
    return Scatter(into, dim, 1, 1, [index], source, adds, from_start)


def _scatter_add(node: torch.fx.Node) -> Scatter | None:
    return _scatter(node, adds=True)


def _scatter_reduce(node: torch.fx.Node) -> Scatter | None:
    # A sixth argument says that what was there is not added.
    return _scatter(node, adds=True) if node.args[4:] == ("sum",) else None


def _index_put(node: torch.fx.Node) -> Scatter | None:
    arguments: tuple[Any, ...] = (*node.args, False)
    into, indices, source, adds = arguments[:4]
    adds = node.kwargs.get("accumulate", adds)
    given = [axis for axis, index in enumerate(indices) if index is not None]
    nodes = [indices[axis] for axis in given]
    if not given or given != list(range(given[0], given[-1] + 1)):
        return None
    if any(index.meta["val"].dtype not in (torch.int32, torch.int64) for index in nodes):
        return None
    target = into.meta["val"]
    count = max(index.meta["val"].dim() for index in nodes)
    inner = target.shape[given[-1] + 1 :]
    if source.meta["val"].dim() != given[0] + count + len(inner) or math.prod(inner) >= current_target().shortest_row:
        return None  # rows are written as rows
    if count != 1:  # sums over several axes in short rows are not vectorised well by Ascend's compiler
        return None
    return Scatter(into, given[0], len(given), count, nodes, source, adds, _from_either_end)


_SCATTERS = {
    _aten.scatter_add.default: _scatter_add,
    _aten.scatter_reduce.two: _scatter_reduce,
    _aten.scatter.src: _scatter,
    _aten.scatter.value: _scatter,
    _aten.index_put.default: _index_put,
    _aten._unsafe_index_put.default: _index_put,
}


def _pays(scatter: Scatter) -> bool:
    if scatter.adds and scatter.into.meta["val"].dtype == torch.bool:
        return False
    if any(map(_joins_short_rows, scatter.indices)):
        return False
    if scatter.row <= longest_row():
        return scatter.written < EXACT_IN_FLOAT32
    # A comparison for each element of what is made in the graph anyway. What is given may be changed in place instead.
    is_given = any(each.op == "placeholder" for each in memory_of(scatter.into))
    return scatter.written == 1 and not is_given


def _joins_short_rows(index: torch.fx.Node) -> bool:
    """Whether indices are computed in rows shorter than a burst: their loop would be compared in such rows, each of
    which takes a block of its own.
    """
    if index.target not in _JOINS or all(each.op == "placeholder" for each in memory_of(index)):
        return False
    rows = index.all_input_nodes[0].meta["val"]
    is_short = rows.dim() > 0 and 1 < rows.shape[-1] < current_target().burst_bytes // rows.dtype.itemsize
    return is_short and rows.shape[-1] != index.meta["val"].shape[-1]


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node, scatter: Scatter) -> None:
    value = scatter.into.meta["val"]
    dtype, first, places = value.dtype, scatter.first, scatter.places
    pairs = value.dim() + scatter.count  # axes of all pairs of an element and an index
    looked_at = list(range(first + places, first + places + scatter.count))
    with in_place_of(node):
        is_meant = None
        for axis, index in enumerate(scatter.indices, first):
            numbers = counted(graph, value, value.shape[axis])
            found = _at(graph, scatter.checked(graph, numbers, index, first), scatter, pairs)
            here = called(graph, _aten.eq.Tensor, found, along(graph, numbers, axis, pairs))
            is_meant = here if is_meant is None else called(graph, _aten.bitwise_and.Tensor, is_meant, here)
        source = scatter.source
        if not isinstance(source, torch.fx.Node):
            source = filled(graph, value, source, dtype)
        elif source.meta["val"].dim() > 0:
            source = _at(graph, source, scatter, pairs)
        if scatter.adds:
            exact = torch.float32 if dtype in _HALF else dtype
            added = _sum_where(graph, is_meant, source, looked_at, exact)
            into = scatter.into if exact == dtype else called(graph, convert, scatter.into, exact)
            result = called(graph, _aten.add.Tensor, into, added)
            if exact != dtype:
                result = called(graph, convert, result, dtype)
        else:
            is_written, chosen = _last(graph, value, is_meant, source, looked_at)
            result = called(graph, _aten.where.self, is_written, chosen, scatter.into)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _at(graph: torch.fx.Graph, of_indices: torch.fx.Node, scatter: Scatter, pairs: int) -> torch.fx.Node:
    """A tensor along the axes of indices, and maybe outer and inner ones, as one of all pairs."""
    shape = list(of_indices.meta["val"].shape)
    inner = pairs - scatter.first - scatter.places - scatter.count
    is_of_all = len(shape) == scatter.first + scatter.count + inner and len(shape) > scatter.count
    if is_of_all or (inner == scatter.first == 0 and len(shape) == scatter.count):
        outer, rest = shape[: scatter.first], shape[scatter.first :]
    else:
        outer, rest = [1] * scatter.first, [1] * (scatter.count - len(shape)) + shape + [1] * inner
    return called(graph, _aten.reshape.default, of_indices, [*outer, *[1] * scatter.places, *rest])


def _last(
    graph: torch.fx.Graph, value: Any, is_meant: torch.fx.Node, source: torch.fx.Node, axes: list[int]
) -> tuple[torch.fx.Node, torch.fx.Node]:
    """Where something is written, and what: of several values the last one."""
    (axis,) = axes
    count = is_meant.meta["val"].shape[axis]
    if count == 1:
        is_written = called(graph, _aten.squeeze.dim, is_meant, axis)
        has_axes = source.meta["val"].dim() > 0
        return is_written, called(graph, _aten.squeeze.dim, source, axis) if has_axes else source
    numbers = called(graph, convert, counted(graph, value, count), torch.float32)
    numbers = along(graph, numbers, axis, is_meant.meta["val"].dim())
    none = filled(graph, value, -1.0, torch.float32)
    meant = called(graph, _aten.where.self, is_meant, numbers, none)
    last = called(graph, _aten.amax.default, meant, [axis], True)
    is_written = called(graph, _aten.ge.Scalar, called(graph, _aten.squeeze.dim, last, axis), 0)
    if source.meta["val"].dim() == 0:
        return is_written, source
    is_last = called(graph, _aten.eq.Tensor, numbers, last)
    if not value.dtype.is_floating_point:
        return is_written, _sum_where(graph, is_last, source, axes, value.dtype)
    # The greatest of one value: a sum would make 0.0 of -0.0.
    least = filled(graph, value, -math.inf, value.dtype)
    return is_written, called(graph, _aten.amax.default, called(graph, _aten.where.self, is_last, source, least), axes)


def _from_either_end(graph: torch.fx.Graph, numbers: torch.fx.Node, index: torch.fx.Node, dim: int) -> torch.fx.Node:
    """The indices of one axis: negative numbers count from the end."""
    return called(graph, _aten.index.Tensor, numbers, [index])


def _sum_where(
    graph: torch.fx.Graph, condition: torch.fx.Node, source: torch.fx.Node, axes: list[int], dtype: torch.dtype
) -> torch.fx.Node:
    zero = filled(graph, condition.meta["val"], 0, source.meta["val"].dtype)
    terms = called(graph, _aten.where.self, condition, source, zero)
    if dtype == torch.bool:  # one of them at most is not False
        return called(graph, _aten.any.dims, terms, axes)
    return called(graph, _aten.sum.dim_IntList, terms, axes, dtype=dtype)

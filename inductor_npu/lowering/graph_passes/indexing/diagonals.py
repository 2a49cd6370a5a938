"""Diagonals that are replaced: a choice for each element of the matrix, instead of stores that lie a row apart.

`diagonal_scatter` is what `x.diagonal().mul_(2)` and the gradient of `diagonal` become; `fill_diagonal_` becomes an
`as_strided_scatter` with the step of a diagonal, and the gradient of `trace` an `index_put` with such a step. Inductor
copies the whole tensor and writes the diagonal over it in a second loop, whose elements lie farther apart than a burst.
`where(column == row + offset, values, tensor)` is one loop, and fused with what is around it. Where only the diagonal
has to be written, because the rest is in memory already and may stay there, Inductor's way is the shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_and

from inductor_npu.lowering.graph_passes.nodes import (
    called,
    convert,
    in_place_of,
    is_on_npu,
    is_pointwise,
    is_view,
    memory_of,
)

_aten = torch.ops.aten
_iota = torch.ops.prims.iota.default

_DIAGONAL, _STRIDED = _aten.diagonal_scatter.default, _aten.as_strided_scatter.default
_IN_LOOPS = (_aten.full.default, _iota, convert, _aten.select_scatter.default, _aten.slice_scatter.default)
_SCATTERS = (_DIAGONAL, _STRIDED, _aten.select_scatter.default, _aten.slice_scatter.default)
_VIEWED = (_aten.view.default, _aten.reshape.default)

# Bytes of an item that Ascend's vector unit chooses by a condition; longer ones it would choose one by one.
_WIDEST = 4


class _Diagonal(NamedTuple):
    """The diagonal of the axes `rows` and `columns`, where `column == row + offset`; it is placed along the axis
    `along`, from its index `start` on, and ends `missing` elements before its end.
    """

    rows: int
    columns: int
    offset: int
    along: int
    start: int
    missing: int


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the replaced diagonals of `graph` on `npu` that are not written in place; returns how many."""
    for node in graph.find_nodes(op="call_function", target=_aten.index_put.default):
        _as_scatter(node)
    rewritten = 0
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.target not in (_DIAGONAL, _STRIDED) or not is_on_npu(value):
            continue
        diagonal = _diagonal(node) if node.target is _DIAGONAL else _main_diagonal(node)
        is_wide = value.is_complex() or value.dtype.itemsize > _WIDEST
        if diagonal is not None and not is_wide and not _is_done_in_place(node):
            _rewrite(graph, node, diagonal)
            rewritten += 1
    return rewritten


def _as_scatter(node: torch.fx.Node) -> None:
    """Scatters a diagonal into a matrix where `node` puts numbers at its places into a row that is then seen as that
    matrix.
    """
    tensor, indices, values = node.args[:3]
    is_row = tensor.meta["val"].dim() == 1 and len(node.args) == 3 and not node.kwargs
    if not is_row or len(node.users) != 1 or not is_on_npu(node.meta["val"]):
        return
    (viewed,), (places,) = node.users, indices
    shape: Sequence[Any] = viewed.meta["val"].shape if viewed.target in _VIEWED else ()
    if len(shape) != 2 or not all(isinstance(size, int) for size in shape) or places.target is not _iota:
        return
    if (places.args[0], places.kwargs["start"], places.kwargs["step"]) != (min(shape), 0, shape[1] + 1):
        return
    graph = node.graph
    with in_place_of(node):
        values = called(graph, _aten.expand.default, values, [min(shape)])
        matrix = called(graph, _aten.view.default, tensor, list(shape))
        result = called(graph, _DIAGONAL, matrix, values)
    viewed.replace_all_uses_with(result)
    graph.erase_node(viewed)
    graph.erase_node(node)


def _is_done_in_place(node: torch.fx.Node) -> bool:
    """Whether all but the diagonal is in memory already, and what is there is not needed any more."""
    tensor = node.args[0]
    if _is_fused(tensor):
        return False
    if any(each.op in ("placeholder", "get_attr") for each in memory_of(tensor)):
        return _is_new_value_of_an_input(node)
    return len(tensor.users) == 1 and not all(map(is_pointwise, node.users))


def _is_fused(node: torch.fx.Node) -> bool:
    """Whether Inductor computes what `node` does in the loop that reads it."""
    if is_view(node):
        return all(map(_is_fused, node.all_input_nodes))
    return node.target in _IN_LOOPS or is_pointwise(node)


def _is_new_value_of_an_input(node: torch.fx.Node) -> bool:
    """Whether `node`, or the tensor of which it becomes a part, is copied to an input at the end of the graph."""
    return any(
        (user.target is _aten.copy_.default and user.args[1] is node)
        or (user.target in _SCATTERS and user.args[1] is node and _is_new_value_of_an_input(user))
        for user in node.users
    )


def _diagonal(node: torch.fx.Node) -> _Diagonal | None:
    """The diagonal that `node` replaces; None if where it begins and ends is known at run time only."""
    arguments = {**dict(zip(("offset", "dim1", "dim2"), node.args[2:])), **node.kwargs}
    offset = arguments.get("offset", 0)
    shape, values = node.meta["val"].shape, node.args[1].meta["val"].shape
    rows, columns = (int(arguments.get(name, default)) % len(shape) for name, default in (("dim1", 0), ("dim2", 1)))
    if not isinstance(offset, int):
        return None
    starts = {rows: max(-offset, 0), columns: max(offset, 0)}
    for axis in sorted(starts, reverse=True):  # the inner one before the outer one
        if starts[axis] == 0 and statically_known_true(values[-1] == shape[axis]):
            return _Diagonal(rows, columns, offset, axis, 0, 0)
    axis = max(rows, columns)
    if not all(isinstance(size, int) for size in (values[-1], shape[axis])):
        return None
    rest = shape[axis] - values[-1]
    start = min(starts[axis], rest)  # one that would begin beyond the matrix has no element
    return _Diagonal(rows, columns, offset, axis, start, rest - start)


def _main_diagonal(node: torch.fx.Node) -> _Diagonal | None:
    """The diagonal of a matrix from its first element on, if that is what `node` replaces by its steps in memory."""
    matrix = node.args[0].meta["val"]
    sizes, steps, offset = (*torch.fx.node.map_arg(node.args[2:], lambda size: size.meta["val"]), None)[:3]
    if node.kwargs or matrix.dim() != 2 or len(sizes) != 1 or offset not in (None, 0) or matrix.storage_offset() != 0:
        return None
    along = max((0, 1), key=lambda axis: (statically_known_true(matrix.shape[axis] == sizes[0]), axis))
    is_whole = statically_known_true(sym_and(sizes[0] == matrix.shape[along], sizes[0] <= matrix.shape[1 - along]))
    if not is_whole or not statically_known_true(steps[0] == sum(matrix.stride())):
        return None
    return _Diagonal(0, 1, 0, along, 0, 0)


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node, diagonal: _Diagonal) -> None:
    tensor, values = node.args[:2]
    dtype = node.meta["val"].dtype
    with in_place_of(node):
        if values.meta["val"].dtype != dtype:
            values = called(graph, convert, values, dtype)
        values = _placed(graph, values, diagonal)
        column = _numbers(graph, tensor, diagonal.columns, 0)
        row = _numbers(graph, tensor, diagonal.rows, diagonal.offset)
        result = called(graph, _aten.where.self, called(graph, _aten.eq.Tensor, column, row), values, tensor)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _placed(graph: torch.fx.Graph, values: torch.fx.Node, diagonal: _Diagonal) -> torch.fx.Node:
    """The values of the diagonal, the last axis of `values`, along one axis of the tensor; the other has length 1."""
    if diagonal.start or diagonal.missing:
        values = called(graph, _aten.constant_pad_nd.default, values, [diagonal.start, diagonal.missing], 0)
    other = min(diagonal.rows, diagonal.columns, key=lambda axis: axis == diagonal.along)
    last = values.meta["val"].dim() - 1
    order = list(range(last))
    order.insert(diagonal.along - (other < diagonal.along), last)
    if order != list(range(last + 1)):
        values = called(graph, _aten.permute.default, values, order)
    return called(graph, _aten.unsqueeze.default, values, other)


def _numbers(graph: torch.fx.Graph, tensor: torch.fx.Node, axis: int, first: int) -> torch.fx.Node:
    """The numbers from `first` on along an axis of `tensor`; all its other axes have length 1."""
    value = tensor.meta["val"]
    size: Any = value.shape[axis]
    length = size if isinstance(size, int) else called(graph, _aten.sym_size.int, tensor, axis)
    settings = {"start": first, "step": 1, "dtype": torch.int64, "device": value.device, "requires_grad": False}
    numbers = called(graph, _iota, length, **settings)
    shape = [1] * value.dim()
    shape[axis] = length
    return called(graph, _aten.view.default, numbers, shape)

"""One element of each row, at a place that the data say, of rows that are read whole anyway.

A loss takes the label's score of each row of scores, which it has just normalised: in a loop of its own these are
loads of single elements by the scalar core, some 128 cycles each. Beside the row's other sums, each element of the row
compares its own place with the index instead; all others become -inf, and the greatest is taken: nothing is read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import (
    REDUCTIONS,
    along,
    called,
    counted,
    filled,
    from_start,
    in_place_of,
    is_on_npu,
    named_axes,
)
from inductor_npu.providers import current_target
from inductor_npu.tiling.cost import longest_compared_row

_aten = torch.ops.aten


def longest_row() -> int:
    """Elements of the longest row for which comparing all of it takes no more cycles than loading one element of it by
    its index.
    """
    return longest_compared_row(current_target())


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the gathers of `graph` on `npu` that take one element of rows that are reduced as well; returns how many
    there were.
    """
    rewritten = 0
    for node in graph.find_nodes(op="call_function", target=_aten.gather.default):
        if _pays(node):
            _rewrite(graph, node)
            rewritten += 1
    return rewritten


def _pays(node: torch.fx.Node) -> bool:
    rows, dim, index = node.args[:3]
    value, indices = rows.meta["val"], index.meta["val"]
    if not is_on_npu(value) or not value.dtype.is_floating_point or value.dim() != indices.dim() or value.dim() == 0:
        return False
    sizes = [*value.shape, *indices.shape]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return False
    dim %= value.dim()
    if indices.shape != (*value.shape[:dim], 1, *value.shape[dim + 1 :]) or value.shape[dim] > longest_row():
        return False
    return any(_is_reduced(each, dim) for each in _of_this_shape(rows))


def _of_this_shape(rows: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """`rows` and what it is computed of, as far as it has the same shape: one loop reads or computes all of it."""
    seen, stack = {rows}, [rows]
    while stack:
        node = stack.pop()
        yield node
        for operand in node.all_input_nodes:
            value = operand.meta.get("val")
            if isinstance(value, torch.Tensor) and value.shape == rows.meta["val"].shape and operand not in seen:
                seen.add(operand)
                stack.append(operand)


def _is_reduced(node: torch.fx.Node, dim: int) -> bool:
    """Whether something is computed of all of a row of `node`."""
    return any(user.target in REDUCTIONS and named_axes(user) == {dim} for user in node.users)


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    arguments: tuple[Any, ...] = node.args
    rows, dim, index = arguments[:3]
    value = rows.meta["val"]
    dim %= value.dim()
    with in_place_of(node):
        numbers = counted(graph, value, value.shape[dim])
        meant = from_start(graph, numbers, index, dim)
        is_meant = called(graph, _aten.eq.Tensor, along(graph, numbers, dim, value.dim()), meant)
        least = filled(graph, value, -math.inf, value.dtype)
        result = called(graph, _aten.amax.default, called(graph, _aten.where.self, is_meant, rows, least), [dim], True)
    node.replace_all_uses_with(result)
    graph.erase_node(node)

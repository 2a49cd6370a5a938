"""Axes of one element whose length is an expression of dynamic sizes: `x.chunk(2)[1]` of 3 rows, of `n - (n + 1) // 2`.

A guard says that the length is 1, so that operators spread such an axis over longer ones, and PyTorch multiplies
columns by rows where a product would sum along it. Inductor asks the guards whether to spread, too; but then it takes
the index along the axis for 0 only where the length is written as 1 (`ir.ExpandView`), and else reads what lies behind
the tensor. Here operators that spread an axis get a view of the tensor in which the length is 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_on_npu, is_view

_aten = torch.ops.aten
# Indices and values of these spread over each other, not over the axes of the result; what they index does not spread.
_BY_INDEX = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default, _aten._unsafe_index.Tensor)
# Results of these are as long as their operands together: no operand is spread, and the sum is a shorter term as it is.
_ADDING_LENGTHS = (_aten.cat.default, _aten.constant_pad_nd.default)


def apply(graph: torch.fx.Graph) -> int:
    """Has operators of `graph` on `npu` spread axes whose length is written as 1; returns how many operands changed."""
    changed = 0
    for node in list(graph.nodes):
        if not _may_spread(node):
            continue
        for operand in node.all_input_nodes:
            axes = _spread(operand, node)
            if not axes:
                continue
            sizes = [1 if axis in axes else -1 for axis in range(operand.meta["val"].dim())]
            with in_place_of(node):
                node.replace_input_with(operand, called(graph, _aten.expand.default, operand, sizes))
            changed += 1
    return changed


def _may_spread(node: torch.fx.Node) -> bool:
    is_operator = isinstance(node.target, torch._ops.OpOverload) and node.target not in _ADDING_LENGTHS
    return is_operator and isinstance(node.meta.get("val"), torch.Tensor)


def _spread(operand: torch.fx.Node, node: torch.fx.Node) -> set[int]:
    """The axes of `operand` of one element, by a guard, that are longer, or of length 1 as it is written, in `node`."""
    value, result = operand.meta.get("val"), node.meta["val"].shape
    if not is_on_npu(value):
        return set()
    of_one = {axis for axis, size in enumerate(value.shape) if _is_one_by_guard(size)}
    if not of_one:
        return set()
    if node.target in _BY_INDEX:
        return of_one if operand is not node.args[0] else set()
    if is_view(node) and node.target is not _aten.expand.default:
        return set() if sum(map(_is_one_by_guard, result)) == len(of_one) else of_one
    missing = len(result) - value.dim()
    return {axis for axis in of_one if missing + axis >= 0 and not _is_one_by_guard(result[missing + axis])}


def _is_one_by_guard(size: Any) -> bool:
    if not isinstance(size, torch.SymInt) or (size.node.has_hint() and size.node.hint != 1):  # not worth to ask guards
        return False
    return statically_known_true(size == 1)

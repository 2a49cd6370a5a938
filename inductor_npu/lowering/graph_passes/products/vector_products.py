"""Batches of vector times matrix, as sums of products: attention of one query, dot products of rows.

Each element of the matrix is used once, so that reading it is all the work: a library call for matrices gains nothing,
and what comes before and after cannot be fused with it. `bmm(a, b)` with one row in `a`, or one column in `b`, becomes
`sum(a * b)`, a loop like any other. Types of half precision are multiplied and added in float32 and rounded once.
Inductor does so itself for the CPU (torch/_inductor/kernel/bmm.py).
"""

from __future__ import annotations

from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import called, convert, in_place_of, is_on_npu

_HALF = (torch.float16, torch.bfloat16)

_aten = torch.ops.aten


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the batches of vector products of `graph` on `npu`; returns how many there were."""
    rewritten = 0
    for node in graph.find_nodes(op="call_function", target=_aten.bmm.default):
        if _is_candidate(node):
            _rewrite(graph, node)
            rewritten += 1
    return rewritten


def _is_candidate(node: torch.fx.Node) -> bool:
    left, right = (operand.meta["val"] for operand in node.args)
    on_npu = is_on_npu(left) and is_on_npu(right)
    known = left.dtype == right.dtype and left.dtype.is_floating_point and left.dtype.itemsize > 1 and not node.kwargs
    return on_npu and known and (_is_one(left.shape[1]) or _is_one(right.shape[2]))


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    left, right = node.args
    dtype = node.meta["val"].dtype
    one_column = _is_one(right.meta["val"].shape[2])
    with in_place_of(node):
        if one_column:  # [batch, rows, inner] * [batch, 1, inner]
            right = called(graph, _aten.permute.default, right, [0, 2, 1])
        else:  # [batch, inner, 1] * [batch, inner, columns]
            left = called(graph, _aten.permute.default, left, [0, 2, 1])
        if dtype in _HALF:
            left, right = (called(graph, convert, operand, torch.float32) for operand in (left, right))
        products = called(graph, _aten.mul.Tensor, left, right)
        result = called(graph, _aten.sum.dim_IntList, products, [2 if one_column else 1], True)
        if dtype in _HALF:
            result = called(graph, convert, result, dtype)
    node.replace_all_uses_with(result)
    graph.erase_node(node)

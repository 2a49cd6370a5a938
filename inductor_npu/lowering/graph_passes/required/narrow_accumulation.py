"""Accumulation into integers of 8 and 16 bits, done in 32: Triton's atomic addition takes no narrower integers.

`index_add`, `scatter_add` and their relatives add to whatever address the data say, so that one address may be meant
several times and each addition has to be atomic. The rewritten operator adds to an int32 copy of the tensor, and the
sum is narrowed again. What is kept of it are the low bits, which no addition above them changes: an overflow wraps
around as in eager.
"""

from __future__ import annotations

from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import called, convert, is_on_npu
from inductor_npu.tiling.limits import SUMMED_IN_32_BITS

_WIDE = torch.int32

_aten = torch.ops.aten


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the accumulations of `graph` on `npu` into narrow integers; returns how many there were."""
    rewritten = 0
    for node in list(graph.nodes):
        tensors = _summed_tensors(node)
        value = node.meta.get("val")
        if tensors and is_on_npu(value) and value.dtype in SUMMED_IN_32_BITS:
            _widen(node, tensors, value.dtype)
            rewritten += 1
    return rewritten


def _summed_tensors(node: torch.fx.Node) -> tuple[int, ...]:
    """The positions of the arguments that `node` adds together; none if it does not become atomic additions."""
    arguments = (*node.args, None, None, None, None)
    if node.target in (_aten.index_put.default, _aten._unsafe_index_put.default):
        accumulates = node.kwargs.get("accumulate", arguments[3])
        return (0, 2) if accumulates and not _has_mask(arguments[1]) else ()
    if node.target in (_aten.scatter_add.default, _aten._unsafe_masked_index_put_accumulate.default):
        return (0, 3)
    if node.target is _aten.scatter_reduce.two:
        return (0, 3) if arguments[4] == "sum" else ()
    if node.target is _aten.scatter.reduce:
        return (0, 3) if node.kwargs.get("reduce") == "add" else ()
    if node.target is _aten.scatter.value_reduce:
        return (0,) if node.kwargs.get("reduce") == "add" else ()
    return ()


def _has_mask(indices: Any) -> bool:
    """Whether an index is a mask, with which the operator runs in eager."""
    return any(index is not None and index.meta["val"].dtype in (torch.bool, torch.uint8) for index in indices)


def _widen(node: torch.fx.Node, tensors: tuple[int, ...], dtype: torch.dtype) -> None:
    """Lets `node` take the tensors at those positions in int32, and all that used it get its result in `dtype`."""
    graph = node.graph
    with graph.inserting_before(node):
        for position in tensors:
            node.update_arg(position, called(graph, convert, node.args[position], _WIDE))
    users = list(node.users)
    node.meta["val"] = node.meta["val"].to(_WIDE)
    with graph.inserting_after(node):
        narrow = called(graph, convert, node, dtype)
    for user in users:
        user.replace_input_with(node, narrow)

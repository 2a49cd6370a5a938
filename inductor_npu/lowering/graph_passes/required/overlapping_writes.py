"""`index_put` whose values or indices lie in the tensor that it writes to.

Inductor writes in place where nobody reads the tensor afterwards, and before torch 2.15 does not ask whether the values
and indices that are read meanwhile are that tensor: wrong values, or eager's error about overlapping memory
(https://github.com/pytorch/pytorch/issues/156786). Here the write goes to a copy.
"""

from __future__ import annotations

import torch

from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_on_npu, memory_of

_aten = torch.ops.aten
_WRITES = (_aten.index_put.default, _aten._unsafe_index_put.default)


def apply(graph: torch.fx.Graph) -> int:
    """Gives each write of `graph` on `npu` that may overwrite what it reads a copy to write to; returns how many."""
    copied = 0
    for target in _WRITES:
        for node in graph.find_nodes(op="call_function", target=target):
            written = node.args[0]
            if is_on_npu(node.meta["val"]) and _reads(node, memory_of(written)):
                with in_place_of(node):
                    copy = called(graph, _aten.clone.default, written)
                node.update_arg(0, copy)
                copied += 1
    return copied


def _reads(node: torch.fx.Node, memory: frozenset[torch.fx.Node]) -> bool:
    """Whether indices or values of `node` may lie in that memory."""
    read: list[torch.fx.Node] = []
    torch.fx.node.map_arg(node.args[1:], read.append)
    return any(not memory.isdisjoint(memory_of(each)) for each in read)

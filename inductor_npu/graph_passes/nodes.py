"""Nodes of a graph: where they compute, what they share or change, and new ones, which know what they compute as those
that Inductor traced do.
"""

from __future__ import annotations

import operator
from typing import Any

import torch


def is_on_npu(value: Any) -> bool:
    """Whether what a node computes, its `meta["val"]`, is a tensor on `npu`."""
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def called(graph: torch.fx.Graph, target: Any, *arguments: Any) -> torch.fx.Node:
    """A call of the operator `target`, put where `graph` inserts, with the fake tensor that it gives as its value."""
    node = graph.call_function(target, arguments)
    node.meta["val"] = target(*torch.fx.node.map_arg(arguments, lambda operand: operand.meta["val"]))
    return node


def is_view(node: torch.fx.Node) -> bool:
    """Whether what `node` computes may lie in the memory of one of its operands."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and any(
        result.alias_info is not None for result in target._schema.returns
    )


def memory_of(node: torch.fx.Node) -> frozenset[torch.fx.Node]:
    """The nodes in whose memory that which `node` computes may lie, by the operators alone."""
    if node.target is operator.getitem and is_view(node.args[0]):
        return memory_of(node.args[0])
    if not is_view(node):
        return frozenset([node])
    return frozenset().union(*map(memory_of, node.all_input_nodes))


def writes(node: torch.fx.Node) -> bool:
    """Whether `node` changes a tensor in place: inputs get their new values at the end of a graph."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator) and "mutation" in node.target.name()

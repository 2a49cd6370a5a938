"""Nodes of a graph: where they compute, and new ones, which know what they compute as those that Inductor traced do."""

from __future__ import annotations

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

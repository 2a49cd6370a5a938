"""New nodes of a graph: like those that Inductor traced, each knows what it computes."""

from __future__ import annotations

from typing import Any

import torch


def called(graph: torch.fx.Graph, target: Any, *arguments: Any) -> torch.fx.Node:
    """A call of the operator `target`, put where `graph` inserts, with the fake tensor that it gives as its value."""
    node = graph.call_function(target, arguments)
    node.meta["val"] = target(*torch.fx.node.map_arg(arguments, lambda operand: operand.meta["val"]))
    return node

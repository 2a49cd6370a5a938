"""Pointwise operators that are equal but for which of several equal constants they take: computed once.

`where(allowed, 0, -inf)`, the mask of attention, is written anew for each layer, with constants of its own. AOTAutograd
leaves equal constants apart, because each may be memory of its own, and so takes the masks for different ones; later
the library's attention gets a copy for each layer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import before_writes, is_on_npu, is_pointwise, is_view, writes

_aten = torch.ops.aten


def apply(graph: torch.fx.Graph) -> int:
    """Removes from `graph` what is computed already from equal constants of no dimension, and views of it that are
    equal, too, but for what leaves the graph: that is memory of its own. Returns how many operators were removed.
    """
    known: dict[Hashable, torch.fx.Node] = {}
    masks: set[torch.fx.Node] = set()  # and views of them
    removed = 0
    for node in list(before_writes(graph)):
        if not (_is_mask(node) or (is_view(node) and not masks.isdisjoint(node.all_input_nodes))) or _leaves(node):
            continue
        first = known.setdefault((node.target, *map(_key, _operands(node))), node)
        if first is node:
            masks.add(node)
        else:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            removed += 1
    return removed


def _leaves(node: torch.fx.Node) -> bool:
    """Whether others may see the memory of `node`, and may change it: the user, or the backward graph."""
    return any(user.op == "output" or writes(user) or (is_view(user) and _leaves(user)) for user in node.users)


def _is_mask(node: torch.fx.Node) -> bool:
    """Whether `node` makes a tensor on `npu` element by element, with a constant."""
    return (
        is_pointwise(node)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and is_on_npu(node.meta.get("val"))
        and any(_is_constant(operand) for operand in _operands(node))
    )


def _operands(node: torch.fx.Node) -> list[Any]:
    return [*node.args, *(part for item in sorted(node.kwargs.items()) for part in item)]


def _key(operand: Any) -> Hashable:
    """Equal for operands with which an operator computes the same."""
    if _is_constant(operand):
        value = operand.meta["val"]
        return "constant", repr(operand.args[1]), value.dtype, value.device
    if isinstance(operand, torch.fx.Node):
        return operand
    if isinstance(operand, list | tuple):
        return tuple(map(_key, operand))
    return type(operand), repr(operand)


def _is_constant(operand: Any) -> bool:
    """Whether `operand` is a tensor of one number and no dimension that is known now."""
    if not isinstance(operand, torch.fx.Node) or operand.target is not _aten.full.default:
        return False
    size, value = operand.args[:2]
    return not size and isinstance(value, (bool, int, float))

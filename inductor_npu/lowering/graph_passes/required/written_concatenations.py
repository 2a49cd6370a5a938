"""Concatenations that are written in place: parts that anything else takes are copied into them.

Inductor lets what computes a part store it right into the concatenation, and whoever else takes the part reads it
there. Which operators work in place it decides before, on the graph, where a concatenation is a copy of its parts. So
in `whole = cat([x, y])`, `whole.index_put_((i,), v)`, `y + 1` the sum reads what `index_put_` has written, and a part
that is written itself changes the concatenation.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_on_npu, is_view, memory_of

_aten = torch.ops.aten
_SCATTERS = (
    _aten.diagonal_scatter.default,
    _aten.select_scatter.default,
    _aten.slice_scatter.default,
    _aten.as_strided_scatter.default,
)


def apply(graph: torch.fx.Graph) -> int:
    """Gives each concatenation of `graph` on `npu` that may be written in place, or whose parts may, parts of its own;
    returns how many these are.
    """
    copied = 0
    for node in graph.find_nodes(op="call_function", target=_aten.cat.default):
        if not is_on_npu(node.meta["val"]):
            continue
        is_written = _may_be_written(node)
        own = {}
        with in_place_of(node):
            for part in dict.fromkeys(node.args[0]):
                if _is_shared(part) and (is_written or any(map(_may_be_written, memory_of(part)))):
                    own[part] = called(graph, _aten.clone.default, part)
        node.update_arg(0, [own.get(part, part) for part in node.args[0]])
        copied += len(own)
    return copied


def _is_shared(part: torch.fx.Node) -> bool:
    """Whether anything but the concatenation takes what is computed for it; inputs of a graph are copied anyway."""
    is_computed = any(each.op == "call_function" for each in memory_of(part))
    return is_computed and (is_view(part) or len(part.users) > 1)


def _may_be_written(node: torch.fx.Node) -> bool:
    """Whether Inductor may let an operator write into what `node` computes, or into a view of it."""
    return any(_may_be_written(user) if is_view(user) else _may_write(user, node) for user in node.users)


def _may_write(user: torch.fx.Node, operand: torch.fx.Node) -> bool:
    from torch._inductor.fx_passes.reinplace import inplaceable_foreach_ops, inplaceable_ops

    if isinstance(user.target, torch._ops.HigherOrderOperator):  # a Triton kernel of the user, a custom operator
        return True
    tables = (inplaceable_ops, inplaceable_foreach_ops, _SCATTERS)
    return any(user.target in table for table in tables) and operand in pytree.tree_leaves(user.args[0])

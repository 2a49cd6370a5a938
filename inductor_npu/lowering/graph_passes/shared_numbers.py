"""Numbers that a concatenation shares with other operators: each concatenation computes its own.

Inductor computes the parts of a concatenation where it is read, unless something else takes one of them: then each part
is stored by a kernel of its own, and a part of one column by stores of single elements. Positions of tokens, and
whatever else is made of `arange` and constants, cost less to compute twice than to store once.
"""

from __future__ import annotations

import torch

from inductor_npu.lowering.graph_passes.nodes import is_on_npu, is_view

_aten = torch.ops.aten
_MADE = (torch.ops.prims.iota.default, _aten.full.default)
_CHEAP = (
    _aten.add.Tensor,
    _aten.sub.Tensor,
    _aten.mul.Tensor,
    torch.ops.prims.convert_element_type.default,
)


def apply(graph: torch.fx.Graph) -> int:
    """Gives each concatenation of `graph` on `npu` numbers of its own; returns how many parts that are."""
    given = 0
    for node in graph.find_nodes(op="call_function", target=_aten.cat.default):
        if not is_on_npu(node.meta["val"]):
            continue
        parts = [_own(graph, part) if _is_shared(part) else part for part in node.args[0]]
        given += sum(part is not own for part, own in zip(node.args[0], parts, strict=True))
        node.update_arg(0, parts)
    return given


def _is_shared(part: torch.fx.Node) -> bool:
    return len(part.users) > 1 and _is_made_of_numbers(part)


def _is_made_of_numbers(node: torch.fx.Node) -> bool:
    """Whether `node` takes nothing of more than one element, and little to compute."""
    if _is_one_number(node) or node.target in _MADE:
        return True
    return (is_view(node) or node.target in _CHEAP) and all(map(_is_made_of_numbers, node.all_input_nodes))


def _is_one_number(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.dim() == 0


def _own(graph: torch.fx.Graph, part: torch.fx.Node) -> torch.fx.Node:
    """A copy of `part` beside it, where all numbers in memory still are what they were."""
    with graph.inserting_before(part):
        return _copied(graph, part)


def _copied(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """`node` once more, with all that it is made of."""
    return node if _is_one_number(node) else graph.node_copy(node, lambda operand: _copied(graph, operand))

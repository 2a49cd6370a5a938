"""Which inputs and weights of an exported module are written: torch.export leaves operators that write as they are."""

from __future__ import annotations

import torch


def written_nodes(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The placeholders and attributes that some operator may write, also through a view."""
    reached: dict[torch.fx.Node, torch.fx.Node] = {}
    written: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            reached[node] = node
        elif node.op == "call_function":
            written.update(reached[argument] for argument in _written_arguments(node) if argument in reached)
            sources = [reached[source] for source in node.all_input_nodes if source in reached]
            if sources and is_view(node):
                reached[node] = sources[0]
    return written


def is_view(node: torch.fx.Node) -> bool:
    """Whether a result of the node may be memory of an argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(result.alias_info is not None for result in schema.returns)


def _written_arguments(node: torch.fx.Node) -> list[torch.fx.Node]:
    schema = getattr(node.target, "_schema", None)
    if schema is None:  # not an operator: a number's function, or one of higher order, which may do anything
        return node.all_input_nodes if isinstance(node.target, torch._ops.HigherOrderOperator) else []
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args)}
    given.update(node.kwargs)
    names = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    found: list[torch.fx.Node] = []
    torch.fx.node.map_arg([given.get(name) for name in names], found.append)
    return found

"""Constant folding: what a model computes of its weights alone is computed when the package is loaded, and again when
weights are updated, but not in each run.

Operators whose results are larger than the weights that they come from stay where they are: decompressing weights ahead
of time would undo what compressing them was for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from inductor_npu.export.writes import is_view, written_nodes

PREFIX = "_folded_"


@dataclass(frozen=True)
class Folded:
    """nodes: the operators that are computed ahead, in order, and what they need. values: the results that the rest of
    the graph uses, by the names of the attributes that stand for them there; their nodes among `nodes`.
    """

    nodes: tuple[torch.fx.Node, ...]
    values: dict[str, torch.Tensor]
    results: tuple[torch.fx.Node, ...]


def fold(graph_module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, Folded]:
    """`graph_module`, an exported module with its weights as attributes, without what depends on weights alone; and
    that. Runs it once, for the sizes and strides of results.
    """
    before = graph_module
    graph_module = torch.fx.GraphModule(before, _copied(before.graph))
    graph_module.meta.update(before.meta)
    foldable = _foldable(graph_module)
    results = [node for node in foldable if not is_view(node) and foldable[node] and _is_used_outside(node, foldable)]
    ahead = _needed_for(results, graph_module.graph.nodes)
    values = _computed(graph_module, ahead)
    named: dict[str, torch.Tensor] = {}
    originals = {node.name: node for node in before.graph.nodes}
    kept = tuple(originals[node.name] for node in ahead)
    for position, node in enumerate(results):
        name = f"{PREFIX}{position}"
        named[name] = values[node].clone()
        graph_module.register_buffer(name, named[name])
        with graph_module.graph.inserting_before(node):
            stand_in = graph_module.graph.get_attr(name)
        stand_in.meta.update(node.meta)
        node.replace_all_uses_with(stand_in)
    folded = Folded(kept, named, tuple(originals[node.name] for node in results))
    for node in reversed(foldable):  # no others: what nobody uses may write memory
        if not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module, folded


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    mapping: dict[torch.fx.Node, torch.fx.Node] = {}
    output = copy.graph_copy(graph, mapping)
    (original,) = graph.find_nodes(op="output")
    copy.output(output).meta.update(original.meta)
    copy._codegen = graph._codegen
    return copy


def _foldable(graph_module: torch.fx.GraphModule) -> dict[torch.fx.Node, bool]:
    """The nodes that depend on constants alone, and whether on weights among them."""
    written = {node.target for node in written_nodes(graph_module.graph)}
    found: dict[torch.fx.Node, bool] = {}
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            if node.target not in written and isinstance(attribute(graph_module, str(node.target)), torch.Tensor):
                found[node] = True
        elif _is_pure(node) and all(source in found for source in node.all_input_nodes):
            of_weights = any(found[source] for source in node.all_input_nodes)
            if not of_weights or _does_not_grow(node, graph_module):
                found[node] = of_weights
    return found


def _is_pure(node: torch.fx.Node) -> bool:
    target = node.target
    return (
        node.op == "call_function"
        and isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and torch.Tag.data_dependent_output not in target.tags
        and len(target._schema.returns) == 1
        and isinstance(node.meta.get("val"), torch.Tensor)
        and all(isinstance(size, int) for size in node.meta["val"].shape)
    )


def _does_not_grow(node: torch.fx.Node, graph_module: torch.fx.GraphModule) -> bool:
    sources = [_meta_of(source, graph_module) for source in node.all_input_nodes]
    if is_view(node) and all(source.dtype == node.meta["val"].dtype for source in sources):
        return True
    return _bytes(node.meta["val"]) <= sum(map(_bytes, sources))


def _meta_of(node: torch.fx.Node, graph_module: torch.fx.GraphModule) -> torch.Tensor:
    return attribute(graph_module, str(node.target)) if node.op == "get_attr" else node.meta["val"]


def _bytes(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def _is_used_outside(node: torch.fx.Node, foldable: dict[torch.fx.Node, bool]) -> bool:
    """Whether something that stays needs the node, or a view of it."""
    if node.op == "get_attr":
        return False
    return any(user not in foldable or (is_view(user) and _is_used_outside(user, foldable)) for user in node.users)


def _needed_for(results: Iterable[torch.fx.Node], order: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    needed: set[torch.fx.Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return [node for node in order if node in needed]


def _computed(graph_module: torch.fx.GraphModule, nodes: Iterable[torch.fx.Node]) -> dict[torch.fx.Node, torch.Tensor]:
    values: dict[torch.fx.Node, torch.Tensor] = {}
    with torch.no_grad():
        for node in nodes:
            if node.op == "get_attr":
                values[node] = attribute(graph_module, str(node.target)).detach()
            else:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda source: values[source])
                values[node] = node.target(*args, **kwargs)
    return values


def attribute(module: torch.nn.Module, path: str) -> Any:
    """What `module` has at the dotted `path`."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value

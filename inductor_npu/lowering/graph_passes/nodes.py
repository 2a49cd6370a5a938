"""Nodes of a graph: where they compute, what they share or change, and new ones, which know what they compute as those
that Inductor traced do.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor.virtualized import V

convert = torch.ops.prims.convert_element_type.default
_aten = torch.ops.aten

# What Inductor names kernels by, and where their comments and errors say that an operator is from.
_ORIGIN = ("original_aten", "stack_trace", "nn_module_stack", "source_fn_stack", "fwd_source_fn_stack", "from_node")


def is_on_npu(value: Any) -> bool:
    """Whether what a node computes, its `meta["val"]`, is a tensor on `npu`."""
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def graph_is_on_npu(gm: torch.fx.GraphModule) -> bool:
    """Whether a node of `gm`, or of a graph inside it, computes a tensor on `npu`."""
    graphs = (module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule))
    return any(is_on_npu(node.meta.get("val")) for graph in graphs for node in graph.nodes)


@contextmanager
def in_place_of(node: torch.fx.Node) -> Iterator[None]:
    """Puts new nodes of the graph before `node`; they are said to be from where it is from."""
    before = node.prev
    with node.graph.inserting_before(node):
        yield
    origin = {name: node.meta[name] for name in _ORIGIN if name in node.meta}
    new = before.next
    while new is not node:
        new.meta = {**origin, **new.meta}
        new = new.next


def called(graph: torch.fx.Graph, target: Any, *arguments: Any, **settings: Any) -> torch.fx.Node:
    """A call of the operator `target`, put where `graph` inserts, with the fake tensor that it gives as its value."""
    node = graph.call_function(target, arguments, settings)
    values, set_to = torch.fx.node.map_arg((arguments, settings), lambda operand: operand.meta["val"])
    with V.fake_mode:  # an operator without operands makes a tensor otherwise
        node.meta["val"] = target(*values, **set_to)
    return node


def filled(graph: torch.fx.Graph, like: torch.Tensor, number: Any, dtype: torch.dtype) -> torch.fx.Node:
    """A number as a tensor without axes, where `like` is."""
    return called(graph, _aten.full.default, [], number, dtype=dtype, device=like.device, pin_memory=False)


def is_pointwise(node: torch.fx.Node) -> bool:
    """Whether `node` computes each element of its result from the elements of its operands at the same place."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def is_view(node: torch.fx.Node) -> bool:
    """Whether what `node` computes may lie in the memory of one of its operands."""
    return isinstance(node.target, torch._ops.OpOverload) and any(
        result.alias_info is not None for result in node.target._schema.returns
    )


def is_backward(graph: torch.fx.Graph) -> bool:
    """Whether AOTAutograd made `graph` for a backward pass."""
    return any("tangents" in str(node.target) for node in graph.find_nodes(op="placeholder"))


def returned_nodes(graph: torch.fx.Graph) -> Counter[torch.fx.Node]:
    """What the user gets, and what that is a view of, with the number of results that are it or views of it. What one
    of our passes makes has memory of its own, as in eager.
    """
    output = graph.output_node()
    results = output.args[0] if isinstance(output.args[0], list | tuple) else output.args
    visible = output.meta.get("user_visible_output_idxs") or range(len(results))
    returned: Counter[torch.fx.Node] = Counter()
    for result in (results[index] for index in visible):
        if isinstance(result, torch.fx.Node):
            returned.update(_with_viewed(result))
    return returned


def _with_viewed(result: torch.fx.Node) -> set[torch.fx.Node]:
    """`result`, and what it is a view of."""
    waiting, seen = [result], set[torch.fx.Node]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            if node.target is _aten.reshape.default or is_view(node):
                waiting.extend(node.all_input_nodes)
    return seen


def memory_of(node: torch.fx.Node) -> frozenset[torch.fx.Node]:
    """The nodes in whose memory that which `node` computes may lie, by the operators alone."""
    if node.target is operator.getitem and is_view(node.args[0]):
        return memory_of(node.args[0])
    if not is_view(node):
        return frozenset([node])
    return frozenset().union(*map(memory_of, node.all_input_nodes))


def before_writes(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """The nodes before the first that changes a tensor in place: what comes after it may read something else in the
    same memory.
    """
    return itertools.takewhile(lambda node: not writes(node), graph.nodes)


def writes(node: torch.fx.Node) -> bool:
    """Whether `node` changes a tensor in place: inputs get their new values at the end of a graph."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator) and "mutation" in node.target.name()

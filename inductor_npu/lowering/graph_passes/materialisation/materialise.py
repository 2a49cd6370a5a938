"""What each value is: stored once, or computed anew by each kernel that takes it. What moves fewer bytes is done."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.attention import store_for_calls
from inductor_npu.lowering.graph_passes.materialisation.concatenations import compute_parts
from inductor_npu.lowering.graph_passes.materialisation.conversions import is_for_products
from inductor_npu.lowering.graph_passes.materialisation.cost import bytes_saved, most_bytes_saved
from inductor_npu.lowering.graph_passes.materialisation.kernels import Kernels
from inductor_npu.lowering.graph_passes.materialisation.kinds import Kind, kind_of
from inductor_npu.lowering.graph_passes.materialisation.reads import Reads
from inductor_npu.lowering.graph_passes.materialisation.sizes import bytes_against
from inductor_npu.lowering.graph_passes.materialisation.stored import stored
from inductor_npu.lowering.graph_passes.nodes import before_writes, called, in_place_of, is_on_npu


def apply(graph: torch.fx.Graph) -> int:
    """Stores values of `graph` that Inductor would compute, or store, for each of their takers, and computes anew what
    it would store, where fewer bytes move then. Returns how many values.
    """
    return store_for_calls(graph) + compute_parts(graph) + _store_shared(graph)


def _store_shared(graph: torch.fx.Graph) -> int:
    """Has each value of `graph` stored that several kernels would compute by reading at least as much as that moves:
    where it is the same, too, because what is stored is where kernels of layers alike begin and end alike.

    Which kernels compute a value depends on what is stored of that which is computed of it; what they read, on what is
    stored of that of which it is computed. So values are chosen from the last to the first, and of these those are
    stored, from the first to the last, that still save something.
    """
    left_alone = Reads.of_graph(graph)
    possible = {node for node in before_writes(graph) if _may_be_stored(node)}

    def is_chosen(kernels: Kernels, node: Node) -> bool:
        if node not in possible or not _is_worth_a_look(node, kernels):
            return False
        _, operands = left_alone.computed_of(node)
        ways = [operands, *_operands_with_one_stored(node, left_alone)]
        return all(most_bytes_saved(node, kernels, way, kernels.is_needed(node)) >= 0 for way in ways)

    kernels = Kernels(graph, left_alone, is_chosen)
    reads = Reads()
    count = 0
    for node in list(graph.nodes):
        reads.add(node)
        if not kernels.is_chosen(node) or reads.is_stored(node):
            continue
        if bytes_saved(node, kernels, reads, kernels.is_needed(node)) >= 0:
            reads.add(_store(graph, node))
            count += 1
    return count


def _may_be_stored(node: Node) -> bool:
    return kind_of(node) is Kind.POINTWISE and is_on_npu(node.meta["val"])


def _is_worth_a_look(node: Node, kernels: Kernels) -> bool:
    """Whether several kernels compute `node`, or one in the order of a view of it, and nothing else does as well."""
    if len(kernels.computing(node)) < 2 and not _is_needed_as_a_view(node, kernels):
        return False
    return not _is_only_for_what_is_no_larger(node)


def _is_needed_as_a_view(node: Node, kernels: Kernels) -> bool:
    """Whether Inductor would store a view of `node` in a loop over the axes of the view, not of `node`."""
    is_view_needed = kernels.is_needed(node) and any(kind_of(user) is Kind.VIEW for user in node.users)
    return is_view_needed and not is_for_products(node)


def _is_only_for_what_is_no_larger(node: Node) -> bool:
    """Whether one operator takes `node`, whose result is computed of as much by the same kernels: to store that instead
    saves no less.
    """
    user = node
    while len(user.users) == 1:
        (user,) = user.users
        if kind_of(user) is not Kind.VIEW:
            return kind_of(user) is Kind.POINTWISE and bytes_against(node.meta["val"], user.meta["val"]) >= 1
    return False


def _operands_with_one_stored(node: Node, reads: Reads) -> Iterator[frozenset[Node]]:
    """Of what `node` is computed if that which it takes is stored instead, one at a time: a mask by which it chooses is
    narrower, a sum that it scales is taken by others, too.
    """
    for operand in node.all_input_nodes:
        if kind_of(operand) is Kind.POINTWISE and not reads.is_stored(operand):
            others = (reads.of(other) for other in node.all_input_nodes if other is not operand)
            yield frozenset([operand]).union(*others)


def _store(graph: torch.fx.Graph, node: Node) -> Node:
    users = list(node.users)
    with in_place_of(node.next):
        value = called(graph, stored, node)
    for user in users:
        user.replace_input_with(node, value)
    return value

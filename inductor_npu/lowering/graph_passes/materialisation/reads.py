"""The tensors in memory of which a value is computed where it is taken."""

from __future__ import annotations

import torch
from torch._inductor import config, lowering
from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.kinds import Kind, kind_of

# Beyond so many tensors Inductor stores what it would compute (`_realize_acc_reads_threshold_default` of its config).
_MOST_READS = 8


class Reads:
    """For each node that was added, in the order of the graph, what a loop reads that takes it: the node itself where
    Inductor stores it as soon as it comes to it, otherwise what it is computed of.
    """

    def __init__(self) -> None:
        self._of: dict[Node, frozenset[Node]] = {}

    @classmethod
    def of_graph(cls, graph: torch.fx.Graph) -> Reads:
        """Those of all nodes of `graph`."""
        reads = cls()
        for node in graph.nodes:
            reads.add(node)
        return reads

    def add(self, node: Node) -> None:
        """Comes after that of its operands."""
        read = self._operands(node)
        self._of[node] = frozenset([node]) if _is_stored(node, read) else read

    def is_stored(self, node: Node) -> bool:
        """Whether `node` lies in memory when what takes it is made."""
        return node in self._of[node]

    def of(self, node: Node) -> frozenset[Node]:
        """What a loop reads that takes `node`."""
        return self._of[node]

    def computed_of(self, node: Node) -> tuple[frozenset[Node], frozenset[Node]]:
        """What is computed where `node` is, itself among it, and what of that is read from memory."""
        cone, waiting = {node}, [node]
        while waiting:
            new = {each for each in waiting.pop().all_input_nodes if not self.is_stored(each)} - cone
            cone |= new
            waiting += new
        return frozenset(cone), self._operands(node)

    def _operands(self, node: Node) -> frozenset[Node]:
        if kind_of(node) in (Kind.CONSTANT, Kind.SIZE):
            return frozenset()
        return frozenset().union(*(self._of[operand] for operand in node.all_input_nodes))


def _is_stored(node: Node, read: frozenset[Node]) -> bool:
    kind = kind_of(node)
    if kind is not Kind.POINTWISE:
        return not kind.is_inlined and kind is not Kind.SIZE
    if len(read) > _MOST_READS:
        return True
    return len(node.users) > 1 and (
        len(read) > config.realize_reads_threshold
        or (len(read) > 1 and any(user.target in lowering.needs_realized_inputs for user in node.users))
        or (len(read) > 0 and any(user.op == "output" for user in node.users))
    )

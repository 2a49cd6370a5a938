"""Parts of a concatenation that something else takes, too: computed anew where that moves fewer bytes.

Inductor computes the parts of a concatenation where it is read, unless something else takes one of them: then it stores
each part, by a kernel of its own, and a part of one column by stores of single elements. What is computed of little, as
the positions of tokens, of nothing, costs less to compute twice than to store and read.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.cost import bytes_saved
from inductor_npu.lowering.graph_passes.materialisation.kernels import Kernels
from inductor_npu.lowering.graph_passes.materialisation.kinds import kind_of
from inductor_npu.lowering.graph_passes.materialisation.reads import Reads
from inductor_npu.lowering.graph_passes.nodes import is_on_npu

_aten = torch.ops.aten


def compute_parts(graph: torch.fx.Graph) -> int:
    """Gives each concatenation of `graph` on `npu` parts of its own where these cost less to compute than to store;
    returns how many parts that are.
    """
    concatenations = {
        node: {part for part in node.args[0] if len(part.users) > 1 and kind_of(part).is_inlined}
        for node in graph.find_nodes(op="call_function", target=_aten.cat.default)
        if is_on_npu(node.meta["val"])
    }
    if not any(concatenations.values()):
        return 0
    reads = Reads.of_graph(graph)
    kernels = Kernels(graph, reads)
    computed = {
        part
        for part in set().union(*concatenations.values())
        if part not in reads.of(part) and bytes_saved(part, kernels, reads, is_written=True) < 0
    }
    for node, parts in concatenations.items():
        own = {part: _own(graph, part, reads) for part in parts & computed}
        node.update_arg(0, [own.get(part, part) for part in node.args[0]])
    return sum(len(parts & computed) for parts in concatenations.values())


def _own(graph: torch.fx.Graph, part: Node, reads: Reads) -> Node:
    """A copy of `part` beside it, where all that it reads still is what it was."""
    with graph.inserting_before(part):
        return _copied(graph, part, reads)


def _copied(graph: torch.fx.Graph, node: Node, reads: Reads) -> Node:
    """`node` once more, with all that it is computed of."""
    if reads.is_stored(node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return node
    return graph.node_copy(node, lambda operand: _copied(graph, operand, reads))

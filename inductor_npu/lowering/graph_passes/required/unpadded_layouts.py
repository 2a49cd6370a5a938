"""Before torch 2.13, a view of a tensor whose rows Inductor pads takes the strides for decided that it has when the
view is made (`View.create` in torch/_inductor/ir.py). They are decided later, by the order in which the tensor is
computed: the view then reads other elements, and beyond the end. So the operators of a graph ask for no padding.
"""

from __future__ import annotations

import torch

from inductor_npu.support import upstream


def apply(graph: torch.fx.Graph) -> int:
    """Marks every node of `graph` as one whose result is not padded, where views of padded tensors are wrong; returns
    how many were not marked before.
    """
    if not upstream.views_take_flexible_strides():
        return 0
    nodes = [node for node in graph.nodes if not node.meta.get("dislike_padding")]
    for node in nodes:
        node.meta["dislike_padding"] = True
    return len(nodes)

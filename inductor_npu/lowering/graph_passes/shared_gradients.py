"""A value that a sum over outer axes takes, and other loops, too: stored once where fewer bytes move then.

Inductor computes such a value anew in each loop that takes it. One is the gradient that reaches a batch norm: a loop
adds it up for each channel, a second one needs it together with the sums, and past a residual branch the layer before
takes it, for a gradient with which the same is done. So a layer's loops compute what the layers after it have computed
already, until one loop reads too many tensors for Inductor (`realize_reads_threshold`), and each layer has loops of its
own, which no other layer has.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch

from inductor_npu.lowering.graph_passes.nodes import is_pointwise, is_reduction_of_rows, is_view
from inductor_npu.lowering.graph_passes.stored import moves_fewer_bytes, store_those

_aten = torch.ops.aten

_SUMS = "sums over outer axes"


def apply(graph: torch.fx.Graph) -> int:
    """Stores values of `graph` that sums over outer axes take, where that moves fewer bytes. Returns how many."""
    return store_those(graph, _should_be_stored)


def _should_be_stored(node: torch.fx.Node) -> bool:
    loops = _loops(node)
    return _SUMS in loops and moves_fewer_bytes(node, len(loops))


def _loops(node: torch.fx.Node) -> set[Hashable]:
    """The loops that take `node`, each told by what it ends with: all sums over outer axes are one. None where Inductor
    stores `node` in any case, and where it is added up along rows, too: that kernel keeps what it computes.
    """
    loops: set[Hashable] = set()
    waiting = [(user, False) for user in node.users]
    while waiting:
        user, is_computed = waiting.pop()
        if any(map(is_reduction_of_rows, (user, *user.users))):
            return set()
        if user.target is _aten.sum.dim_IntList:
            loops.add(_SUMS)
        elif len(user.users) == 1 and (is_pointwise(user) or is_view(user)):
            waiting.append((next(iter(user.users)), is_computed or is_pointwise(user)))
        elif is_computed or is_pointwise(user):
            loops.add(user)
        else:
            return set()
    return loops

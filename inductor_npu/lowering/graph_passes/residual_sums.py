"""A residual sum that a norm and the next sum take: stored once where fewer bytes move then.

Networks whose norms come first (Llama, GPT-2, T5) add to one stream of numbers from layer to layer: each sum is taken
by a norm and by the next sum. Inductor computes it anew in both, together with the sums before it, until one loop
reads too many tensors (`realize_reads_threshold`). So norms read what several layers have added, and these layers, one
after the other, have kernels of their own.
"""

from __future__ import annotations

import operator

import torch

from inductor_npu.lowering.graph_passes.nodes import is_pointwise, is_reduction_of_rows, is_view
from inductor_npu.lowering.graph_passes.stored import moves_fewer_bytes, store_those


def apply(graph: torch.fx.Graph) -> int:
    """Stores values of `graph` that a norm and other loops take, where that moves fewer bytes. Returns how many."""
    return store_those(graph, _should_be_stored)


def _should_be_stored(node: torch.fx.Node) -> bool:
    if len(node.users) == 1 and not any(map(is_view, node.users)):
        return False  # if anything is stored it is what the one loop computes that takes `node`
    others = _loops_beside(node, _norm_of(node))
    return others > 0 and moves_fewer_bytes(node, 1 + others)


def _norm_of(node: torch.fx.Node) -> set[torch.fx.Node]:
    """What a kernel computes that reduces the rows of `node`: the reductions, what only leads to them, and what goes on
    with their results. Empty where there is none.
    """
    alone, known = [node], {node}  # what is computed of `node` alone, operands before those that take them
    reductions = set()
    for each in alone:
        for user in each.users:
            if is_reduction_of_rows(user):
                reductions.add(user)
            elif _is_fused(user) and user not in known and known.issuperset(user.all_input_nodes):
                alone.append(user)
                known.add(user)
    norm, waiting = set(reductions), list(reductions)
    while waiting:
        new = [user for user in waiting.pop().users if _is_fused(user) and user not in norm]
        norm.update(new)
        waiting += new
    for each in reversed(alone[1:]):
        if norm.issuperset(each.users):
            norm.add(each)
    return norm


def _is_fused(node: torch.fx.Node) -> bool:
    return is_pointwise(node) or is_view(node) or node.target is operator.getitem


def _loops_beside(node: torch.fx.Node, norm: set[torch.fx.Node]) -> int:
    """How many loops besides `norm` take `node`; 0 without a norm, and where Inductor stores `node` in any case."""
    others = 0
    waiting = list(node.users) if norm else []
    while waiting:
        user = waiting.pop()
        if user in norm:
            continue
        if is_view(user):
            waiting += user.users
        elif is_pointwise(user):
            others += 1
        else:
            return 0
    return others

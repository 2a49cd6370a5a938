"""Saved tensors that lie in a result's memory, which a backward graph must not overwrite.

AOTAutograd donates a saved tensor to the backward graph, which may overwrite it, where no result has its storage.
Rewrites of the joint graph (a batch of one product, random numbers) give a node a new storage and leave its views the
old one, so that results were overwritten. Here the operators say which tensors share memory, and of such a saved tensor
a copy is saved.
"""

from __future__ import annotations

from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_backward, is_on_npu, memory_of


def metadata() -> Any:
    """What AOTAutograd knows of the function whose graphs are compiled at present, None where it knows nothing."""
    context = torch._guards.TracingContext.try_get()
    return None if context is None else context.fw_metadata


def apply(graph: torch.fx.Graph) -> int:
    """Has the forward graph `graph` save copies of what it donates while a result lies there; returns how many."""
    known = metadata()
    if known is None or not known.bw_donated_idxs or is_backward(graph):
        return 0
    (output,) = graph.find_nodes(op="output")
    if isinstance(output.args[0], torch.fx.Node):  # a graph inside another one, as a score_mod of FlexAttention
        return 0
    leaving = list(output.args[0])
    kept = frozenset[torch.fx.Node]().union(*map(_memory, leaving[: known.num_forward]))
    # Among the backward graph's inputs saved sizes come first, among the forward graph's results saved tensors.
    first = known.num_forward - (known.num_symints_saved_for_bw or 0)
    copied = 0
    for place in (first + donated for donated in known.bw_donated_idxs):
        saved = leaving[place] if place < len(leaving) else None
        if isinstance(saved, torch.fx.Node) and is_on_npu(saved.meta["val"]) and not kept.isdisjoint(_memory(saved)):
            with in_place_of(output):
                leaving[place] = called(graph, torch.ops.aten.clone.default, saved)
            copied += 1
    if copied:
        output.update_arg(0, type(output.args[0])(leaving))
    return copied


def _memory(leaving: Any) -> frozenset[torch.fx.Node]:
    return memory_of(leaving) if isinstance(leaving, torch.fx.Node) else frozenset()

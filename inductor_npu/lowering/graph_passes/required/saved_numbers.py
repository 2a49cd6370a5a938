"""Numbers in tensors of the CPU that a captured forward graph saves for the backward pass.

Where graphs are captured, Inductor moves such arguments to `npu` in one copy and gives all their users the copies.
Torch 2.11 takes the graph's results for users, too: what is saved is then a tensor of `npu`, and the backward graph,
which was made for one of the CPU, reads its memory on the host. Later releases leave results alone.
"""

from __future__ import annotations

import operator

import torch

_aten, _prims = torch.ops.aten, torch.ops.prims


def apply(graph: torch.fx.Graph) -> int:
    """Has `graph` return the arguments instead of their copies; returns how many."""
    (output,) = graph.find_nodes(op="output")
    before = output.meta.get("val")  # what the results were before Inductor's passes
    if isinstance(output.args[0], torch.fx.Node) or before is None:  # a graph inside another one
        return 0
    leaving = list(output.args[0])
    count = 0
    for place, (node, value) in enumerate(zip(leaving, before, strict=True)):
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and (number := _argument_of(node)):
            leaving[place] = number
            count += 1
    if count:
        output.update_arg(0, type(output.args[0])(leaving))
    return count


def _argument_of(node: object) -> torch.fx.Node | None:
    """The argument of which `node` is Inductor's copy: `unbind(device_put(cat([unsqueeze(argument), ...])))[place]`."""
    if not isinstance(node, torch.fx.Node) or node.target is not operator.getitem:
        return None
    split, place = node.args
    for target in (_aten.unbind.int, _prims.device_put.default, _aten.cat.default):
        if not isinstance(split, torch.fx.Node) or split.target is not target:
            return None
        split = split.args[0]
    raised = split[place]
    is_raised = isinstance(raised, torch.fx.Node) and raised.target is _aten.unsqueeze.default
    return raised.args[0] if is_raised and raised.args[0].op == "placeholder" else None

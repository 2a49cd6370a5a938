"""A value that several calls of the library's attention take, and each would store anew: stored once for all.

Inductor hands attention stored operands only, with their elements one after the other (`sdpa_constraint` in torch's
_inductor/lowering.py). A mask that is a handful of operators, or that lies expanded or turned in memory, is stored for
each call, also where all layers take the same one; and some models make a contiguous copy for each layer. Each call but
the first would write as many bytes as the whole mask has, and the kernel that stores them all would be another for each
number of layers.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch._inductor.ir import get_stride_order
from torch._prims_common import make_contiguous_strides_for
from torch.fx import Node

from inductor_npu.codegen.attention import choice
from inductor_npu.lowering.graph_passes.materialisation.kinds import Kind, kind_of
from inductor_npu.lowering.graph_passes.nodes import before_writes, called, in_place_of, is_on_npu

_aten = torch.ops.aten


def store_for_calls(graph: torch.fx.Graph) -> int:
    """Has each value of `graph` stored once that several calls of attention would store. Returns how many values."""
    calls: dict[Node, list[tuple[Node, Node]]] = defaultdict(list)
    for node in before_writes(graph):
        for taken in dict.fromkeys(node.all_input_nodes) if _is_attention(node) else ():
            value = _copied_contiguously(taken) or taken
            if value.op != "placeholder" and _is_stored_for_a_call(value, taken):
                calls[value].append((node, taken))
    shared = {value: takers for value, takers in calls.items() if len({call for call, _ in takers}) > 1}
    for value, takers in shared.items():
        strides = make_contiguous_strides_for(value.meta["val"].shape)
        with in_place_of(takers[0][0]):  # a clone would be computed, and stored, for each of its users
            once = called(graph, torch.ops.prims.inductor_force_stride_order.default, value, strides)
        for call, taken in takers:
            call.replace_input_with(taken, once)
    return len(shared)


def _is_attention(node: Node) -> bool:
    """Whether `node` calls the library's attention. Kernels of ours make their masks themselves, tile by tile."""
    is_attention = isinstance(node.target, torch._ops.OpOverload) and "scaled_dot_product" in node.target.name()
    return is_attention and not (choice.is_attention(node) and choice.why_library(node) is None)


def _copied_contiguously(value: Node) -> Node | None:
    """What `value` is a contiguous copy of, if it is one: some models make one for each layer."""
    is_copy = value.target is _aten.clone.default and value.kwargs.get("memory_format") is torch.contiguous_format
    return value.args[0] if is_copy else None


def _is_stored_for_a_call(value: Node, taken: Node) -> bool:
    """Whether Inductor stores `value`, or its copy `taken`, contiguously for a call: what is computed, and what does
    not lie with the elements of its last axis closest together, as an expanded or turned mask.
    """
    tensor = value.meta["val"]
    if not is_on_npu(tensor) or not all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride())):
        return False
    if tensor.is_contiguous():
        return value is not taken or kind_of(value).is_inlined or kind_of(value) is Kind.OTHER
    return value is not taken or get_stride_order(tensor.stride())[-1] != 0

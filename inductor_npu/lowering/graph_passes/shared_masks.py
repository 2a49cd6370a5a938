"""A mask that several layers of attention take is stored once.

Inductor hands the library's attention stored operands only (`sdpa_constraint` in torch's _inductor/lowering.py): a mask
that is a handful of operators, or that lies expanded in memory, is stored for each call, also where all layers take the
same one. Each layer would cost as much memory as the whole mask, and the kernel that stores them all would be another
for each number of layers.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch._inductor.ir import get_stride_order
from torch._prims_common import make_contiguous_strides_for

from inductor_npu.lowering.graph_passes.nodes import before_writes, called, in_place_of, is_on_npu

_aten = torch.ops.aten

_MASKS = ("attn_bias", "attn_mask")


def apply(graph: torch.fx.Graph) -> int:
    """Has each mask of `graph` that several calls of attention take stored for all of them. Returns how many masks."""
    calls: dict[torch.fx.Node, list[tuple[torch.fx.Node, torch.fx.Node]]] = defaultdict(list)
    for node in before_writes(graph):
        taken = _mask_of(node)
        if taken is None:
            continue
        mask = _copied_contiguously(taken) or taken
        if mask.op == "placeholder" or not _is_known(mask.meta["val"]):
            continue
        if mask is not taken or _is_stored_contiguously(mask.meta["val"]):
            calls[mask].append((node, taken))
    shared = {mask: users for mask, users in calls.items() if len(users) > 1}
    for mask, users in shared.items():
        strides = make_contiguous_strides_for(mask.meta["val"].shape)
        with in_place_of(users[0][0]):  # a clone would be computed, and stored, for each of its users
            stored = called(graph, torch.ops.prims.inductor_force_stride_order.default, mask, strides)
        for user, taken in users:
            user.replace_input_with(taken, stored)
    return len(shared)


def _mask_of(node: torch.fx.Node) -> torch.fx.Node | None:
    """The mask that `node` takes if it calls the library's attention on `npu`."""
    if not isinstance(node.target, torch._ops.OpOverload) or "scaled_dot_product" not in node.target.name():
        return None
    for argument, operand in zip(node.target._schema.arguments, node.args, strict=False):
        if argument.name in _MASKS and isinstance(operand, torch.fx.Node) and is_on_npu(operand.meta["val"]):
            return operand
    return None


def _copied_contiguously(mask: torch.fx.Node) -> torch.fx.Node | None:
    """What `mask` is a contiguous copy of, if it is one: some models make one for each layer."""
    is_copy = mask.target is _aten.clone.default and mask.kwargs.get("memory_format") is torch.contiguous_format
    return mask.args[0] if is_copy else None


def _is_stored_contiguously(mask: torch.Tensor) -> bool:
    """Whether Inductor stores `mask`, whose sizes are known, with its elements one after the other: it does so where
    those of the last axis do not lie closest together, as in an expanded or a turned mask.
    """
    return mask.is_contiguous() or get_stride_order(mask.stride())[-1] != 0


def _is_known(mask: torch.Tensor) -> bool:
    """Whether the sizes and strides of `mask` are numbers."""
    return all(isinstance(size, int) for size in (*mask.shape, *mask.stride()))

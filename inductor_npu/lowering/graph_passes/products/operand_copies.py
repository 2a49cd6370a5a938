"""Operands of matrix products that are copies of tensors in another order, read from these tensors instead.

Eager copies heads of attention, `[batch, positions, heads, width]`, to a batch of matrices before it multiplies them. A
kernel of ours reads each matrix where it is: the copy becomes a view, as far as the lowering can read that (else the
lowering makes the copy).
"""

from __future__ import annotations

import torch

from inductor_npu.lowering.graph_passes.nodes import before_writes, called, in_place_of, is_on_npu

_aten = torch.ops.aten
_PRODUCTS = (_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default)
_VIEWS = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)


def apply(graph: torch.fx.Graph) -> int:
    """Replaces copies that are operands of products of `graph` on `npu`; returns how many operands these were."""
    replaced = 0
    for product in list(before_writes(graph)):
        if product.target not in _PRODUCTS or not is_on_npu(product.meta.get("val")):
            continue
        for operand in dict.fromkeys(product.args[-2:]):
            source = _copied(operand)
            if source is not None:
                with in_place_of(product):
                    view = called(graph, _aten.reshape.default, source, list(operand.meta["val"].shape))
                product.replace_input_with(operand, view)
                replaced += 1
    if replaced:
        graph.eliminate_dead_code()
    return replaced


def _copied(operand: torch.fx.Node) -> torch.fx.Node | None:
    """What `operand` is a copy of, in the order of its elements; None if it is none."""
    while operand.target in _VIEWS:
        operand = operand.args[0]
    return operand.args[0] if operand.target is _aten.clone.default else None

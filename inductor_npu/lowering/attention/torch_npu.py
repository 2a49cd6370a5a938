"""Lowers torch_npu's fused attention, forward and backward, to kernels of ours where `config.templates` is all.

On a chip torch_npu makes `npu_fusion_attention_v3` of `scaled_dot_product_attention` before Inductor sees it. It is an
operator of CANN's, made for the chip, and stays unless kernels are asked for. Results are those of the operator, so
that either may compute the other's gradients: beside the result the greatest score of each query, and the sum of the
exponentials of its scores by that, eight times each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops

from inductor_npu.codegen.attention import choice
from inductor_npu.codegen.attention.buffer import AttentionBuffer, written_to
from inductor_npu.lowering.attention.operands import readable, wanted_results
from inductor_npu.lowering.attention.sdpa import attention_of, delta_of, gradients
from inductor_npu.lowering.operands import base_of, dense_layout, or_else
from inductor_npu.tiling.attention import Pass

_LANES = 8
_MINUS_INFINITY = float("-inf")


def register() -> None:
    """Gives the operators lowerings; without torch_npu there are none of these names."""
    for name, lower in ((choice.FUSED_FORWARD, _forward), (choice.FUSED_BACKWARD, _backward)):
        packet = getattr(torch.ops.npu, name, None)
        if packet is not None:
            lowering.register_lowering(packet.default, type_promotion_kind=None)(
                _or_the_operator(packet.default, lower)
            )


def _or_the_operator(overload: Any, lower: Any) -> Any:
    """`lower`, or a call of the operator for what kernels of ours do not take."""
    call = lowering.fallback_handler(overload, add_to_fallback_set=False)
    return or_else(call, lower, str(overload), lambda *_, **_o: choice.why_library(V.graph.current_node) is None)


def _forward(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    head_num: int,
    input_layout: str,
    pse: None = None,
    padding_mask: None = None,
    atten_mask: ir.TensorBox | None = None,
    scale: float = 1.0,
    *others: Any,
    **options: Any,
) -> tuple[Any, ...]:
    """[B, H, M, D], [B, G, N, D], [B, G, N, E] -> result [B, H, M, E]; greatest scores and sums [B, H, M, 8] in
    float32; what only dropout would need.
    """
    promised = V.graph.current_node.meta["val"]
    tensors = [readable(each) for each in (query, key, value)]
    is_causal = choice.is_causal(V.graph.current_node)
    attention, reads = attention_of(tensors, None if is_causal else _added(atten_mask), is_causal, scale)
    rows, device = list(query.get_size()[:3]), query.get_device()
    numbers = [written_to(rows, None, torch.float32, device) for _ in range(2)]
    inputs = [*map(base_of, tensors), *reads.nodes()]
    result = AttentionBuffer(dense_layout(promised[0]), Pass.FORWARD, attention, inputs, (), numbers, reads.sizes())
    logarithms, greatest = (ir.TensorBox.create(number) for number in numbers)
    wanted = wanted_results(6)
    rest = [_nothing_in(promised[place]) if place in wanted else None for place in (3, 4, 5)]
    statistics = (_in_lanes([greatest], lambda most: most), _in_lanes([logarithms, greatest], _sum))
    return (ir.TensorBox(ir.StorageBox(result)), *statistics, *rest)


def _backward(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    dy: ir.TensorBox,
    head_num: int,
    input_layout: str,
    *,
    softmax_max: ir.TensorBox,
    softmax_sum: ir.TensorBox,
    attention_in: ir.TensorBox,
    atten_mask: ir.TensorBox | None = None,
    scale_value: float = 1.0,
    **options: Any,
) -> tuple[Any, ...]:
    """The gradients of query, key and value; what would be those of a bias and of a sink is empty."""
    promised = V.graph.current_node.meta["val"]
    tensors = [readable(each) for each in (query, key, value)]
    is_causal = choice.is_causal(V.graph.current_node)
    attention, reads = attention_of(tensors, None if is_causal else _added(atten_mask), is_causal, scale_value)
    most, total = (lowering.select(each, 3, 0) for each in (softmax_max, softmax_sum))
    logarithms = lowering.lowerings[torch.ops.aten.add.Tensor](
        most, lowering.lowerings[torch.ops.aten.log.default](total)
    )
    wanted = wanted_results(5)
    rest = [_nothing_in(promised[place]) if place in wanted else None for place in (3, 4)]
    delta = delta_of(attention_in, dy)
    return (*gradients(attention, tensors, reads, dy, ir.ExternKernel.require_contiguous(logarithms), delta), *rest)


def _added(left_out: ir.TensorBox | None) -> ir.TensorBox | None:
    """The mask that is added to scores, of one that says which of them are left out."""
    if left_out is None:
        return None
    load = left_out.make_loader()

    def of(index: Sequence[Any]) -> Any:
        holds = ops.to_dtype(load(index), torch.bool)
        return ops.where(holds, ops.constant(_MINUS_INFINITY, torch.float32), ops.constant(0.0, torch.float32))

    device, size = left_out.get_device(), left_out.get_size()
    return ir.Pointwise.create(device=device, dtype=torch.float32, inner_fn=of, ranges=size)


def _sum(logarithm: Any, most: Any) -> Any:
    """The sum of exponentials by the greatest score; 0 where no score counts."""
    nothing = ops.eq(most, ops.constant(_MINUS_INFINITY, torch.float32))
    return ops.where(nothing, ops.constant(0.0, torch.float32), ops.exp(ops.sub(logarithm, most)))


def _in_lanes(numbers: Sequence[ir.TensorBox], function: Any) -> ir.TensorBox:
    """`function` of the numbers of each query [B, H, M], as the operator stores them: [B, H, M, 8]."""
    loaders = [number.make_loader() for number in numbers]
    return ir.Pointwise.create(
        device=numbers[0].get_device(),
        dtype=torch.float32,
        inner_fn=lambda index: function(*(load(index[:-1]) for load in loaders)),
        ranges=[*numbers[0].get_size(), _LANES],
    )


def _nothing_in(promised: torch.Tensor) -> ir.TensorBox:
    """Memory of these sizes that nobody reads."""
    return lowering.empty_strided(list(promised.shape), None, dtype=promised.dtype, device=promised.device)

"""Lowers FlexAttention on `npu`, forward and backward, to kernels of ours.

The graphs of `score_mod` and `mask_mod` become operators on a tile of scores; the lists of a BlockMask say which blocks
are computed. Source: torch.nn.attention.flex_attention (He et al., "FlexAttention: A Programming Model for Generating
Optimized Attention Kernels", 2024). Logarithms are binary there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import OpsWrapper, V

from inductor_npu.codegen.attention.buffer import AttentionBuffer, written_to
from inductor_npu.codegen.attention.problem import Attention, BlockLists, GradientOfScore
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.lowering.attention import captured_tensors, user_graph
from inductor_npu.lowering.attention.operands import (
    Reads,
    readable,
    wanted_results,
    why_no_kernel,
)
from inductor_npu.lowering.attention.sdpa import delta_of, gradients, values_of_scores
from inductor_npu.lowering.attention.user_graph import OF_MASK, OF_SCORE
from inductor_npu.lowering.operands import base_of, dense_layout, or_else
from inductor_npu.tiling.attention import Pass

_FORWARD = torch.ops.higher_order.flex_attention
_BACKWARD = torch.ops.higher_order.flex_attention_backward

# The block of the lists that stand for no lists (`_create_empty_block_mask`).
_NO_BLOCKS = 1 << 30
_SHORTEST_BLOCK = 16


def register() -> None:
    """Takes the place of Inductor's lowerings of FlexAttention, for tensors on `npu`."""
    for operator, lower in ((_FORWARD, _forward), (_BACKWARD, _backward)):
        chosen = or_else(lowering.lowerings[operator], lower, operator.name())
        lowering.register_lowering(operator, type_promotion_kind=None)(chosen)


def _forward(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    subgraph: Any,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: dict[str, Any],
    score_mod_other_buffers: Sequence[Any],
    mask_mod_other_buffers: Sequence[Any],
) -> tuple[Any, ...]:
    """[B, H, M, D], [B, G, N, D], [B, G, N, E] -> result [B, H, M, E]; binary logarithms and greatest scores [B, H, M]
    in float32.
    """
    tensors = _tensors(query, key, value)
    score = _modification(subgraph, OF_SCORE, score_mod_other_buffers, query)
    mask = _modification(block_mask[-1], OF_MASK, mask_mod_other_buffers, query)
    lists = _lists(block_mask[2:6], block_mask, tensors)
    attention, reads = _attention(tensors, scale, score, mask, None, lists)
    out = V.graph.current_node.meta["val"][0]
    rows = list(query.get_size()[:3])
    wanted = wanted_results(3)
    numbers = [
        written_to(rows, None, torch.float32, query.get_device()) if place in wanted else None for place in (1, 2)
    ]
    inputs = [*map(base_of, tensors), *_nodes_of(lists), *reads.nodes()]
    result = AttentionBuffer(dense_layout(out), Pass.FORWARD, attention, inputs, (), numbers, reads.sizes())
    boxes = [None if number is None else ir.TensorBox.create(number) for number in numbers]
    return (ir.TensorBox(ir.StorageBox(result)), *boxes)


def _backward(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    out: ir.TensorBox,
    logsumexp: ir.TensorBox,
    grad_out: ir.TensorBox | None,
    grad_logsumexp: ir.TensorBox | None,
    fw_graph: Any,
    joint_graph: Any,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: dict[str, Any],
    score_mod_other_buffers: Sequence[Any],
    mask_mod_other_buffers: Sequence[Any],
) -> tuple[Any, ...]:
    """The gradients of queries, keys and values, and of captured tensors."""
    tensors = _tensors(query, key, value)
    score = _modification(fw_graph, OF_SCORE, score_mod_other_buffers, query)
    mask = _modification(block_mask[-1], OF_MASK, mask_mod_other_buffers, query)
    gradient: GradientOfScore | None = None
    added: list[captured_tensors.Added] = []
    if score is not None:
        gradient, added = captured_tensors.gradients_of(joint_graph, score_mod_other_buffers, query)
    by_row = _lists(block_mask[2:6], block_mask, tensors)
    by_column = _lists(block_mask[6:10], block_mask, tensors)
    attention, reads = _attention(tensors, scale, score, mask, gradient, by_row, [each.value for each in added])
    if grad_out is None:  # where nothing but the logarithms is used
        size, device = out.get_size(), out.get_device()
        grad_out = lowering.full(size, 0, dtype=out.get_dtype(), device=device)
    delta = delta_of(out, grad_out)
    if grad_logsumexp is not None:
        natural = lowering.lowerings[torch.ops.aten.mul.Tensor](grad_logsumexp, 1 / math.log(2))
        delta = lowering.lowerings[torch.ops.aten.sub.Tensor](delta, natural)
    if by_row is not None and by_column is None:
        raise NotImplementedError("flex_attention on npu has no gradients for a BlockMask without lists of queries")
    lists = None if by_row is None else (by_row, by_column)
    nodes = [*_nodes_of(by_row), *_nodes_of(by_column)]
    kept = [values_of_scores(attention, torch.float32, query.get_device()) for _ in added]
    results = gradients(attention, tensors, reads, grad_out, logsumexp, delta, lists, nodes, kept)
    return (*results, captured_tensors.summed(added, kept, score_mod_other_buffers))


def _tensors(query: ir.TensorBox, key: ir.TensorBox, value: ir.TensorBox) -> list[ir.IRNode]:
    if (reason := why_no_kernel(query, key, value)) is not None:
        raise NotImplementedError(f"flex_attention on npu has no kernel for {reason}")
    return [readable(each) for each in (query, key, value)]


# -- graphs of the user -----------------------------------------------------------------------------------------------


def _modification(graph: Any, names: Sequence[str], captured: Sequence[Any], query: ir.TensorBox) -> Any:
    """The operators of score_mod or mask_mod; None where it changes nothing."""
    of = user_graph.function(user_graph.compiled(graph, names, captured, query))

    def modify(score: Any) -> Any:
        return of({"score": OpsWrapper._unwrap(score)})

    with V.set_ops_handler(Reads()):
        changes_nothing = OpsWrapper._unwrap(modify("score")) in ("score", "constant True")
    return None if changes_nothing else modify


# -- blocks -----------------------------------------------------------------------------------------------------------


def _lists(four: Sequence[Any], block_mask: Sequence[Any], tensors: Sequence[ir.IRNode]) -> BlockLists | None:
    """The lists of one direction of a BlockMask: counts and indices of partial and of full blocks."""
    rows, columns = (V.graph.sizevars.guard_int(size) for size in block_mask[-3:-1])
    if columns == _NO_BLOCKS and rows == _NO_BLOCKS:
        return None
    for length, block in ((tensors[0].get_size()[2], rows), (tensors[1].get_size()[2], columns)):
        is_one = V.graph.sizevars.statically_known_leq(length, block)
        if not is_one and block & -block < _SHORTEST_BLOCK:
            raise NotImplementedError(f"flex_attention on npu: BLOCK_SIZE {block} is no multiple of {_SHORTEST_BLOCK}")
    if four[0] is None:
        return None
    stored = [None if each is None else Tensor.of(readable(each)) for each in four]
    assert stored[0] is not None and stored[1] is not None
    return BlockLists(stored[0], stored[1], stored[2], stored[3], rows, columns)


def _nodes_of(lists: BlockLists | None) -> list[ir.IRNode]:
    if lists is None:
        return []
    every = (lists.counts, lists.indices, lists.full_counts, lists.full_indices)
    return [V.graph.get_buffer(each.buffer) for each in every if each is not None]


def _attention(
    tensors: Sequence[ir.IRNode],
    scale: float,
    score: Any,
    mask: Any,
    gradient: Any,
    lists: BlockLists | None,
    kept: Sequence[GradientOfScore] = (),
) -> tuple[Attention, Reads]:
    query, key, value = map(Tensor.of, tensors)
    functions: list[Callable[[], Any]] = [
        functools.partial(each, "score") for each in (score, mask) if each is not None
    ]
    for each in (gradient, *kept):
        if each is not None:
            functions.append(functools.partial(each, "score", "grad_score_mod"))
    attention = Attention(
        query=query,
        key=key,
        value=value,
        scale=scale,
        score=score,
        gradient=gradient,
        kept=tuple(kept),
        mask=mask,
        blocks=lists,
        masks_rows=score is not None or mask is not None or lists is not None,
        log_unit=math.log(2),
    )
    return attention, Reads.of(functions)

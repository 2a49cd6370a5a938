"""Lowers `scaled_dot_product_attention` on `npu`, forward and backward, to kernels of ours.

On a device of its own kind PyTorch hands it on as `_scaled_dot_product_fused_attention_overrideable` where the device
says that it has fused attention (`_fused_sdp_choice`); what it says no to is decomposed into products and a softmax.
What no kernel of ours takes keeps Inductor's own lowering, which calls the operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops

from inductor_npu.codegen.attention.buffer import AttentionBuffer, written_to
from inductor_npu.codegen.attention.problem import AXES, Attention, BlockLists, Modification
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.lowering.attention.operands import (
    Reads,
    readable,
    wanted_results,
    why_no_kernel,
    why_slower,
)
from inductor_npu.lowering.operands import base_of, copied, dense_layout, is_on_npu, or_else, unless_taken
from inductor_npu.tiling.attention import Pass

_aten = torch.ops.aten
_FORWARD = _aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = _aten._scaled_dot_product_fused_attention_overrideable_backward.default

# A mask that more operators than these make is stored: each head would make it anew.
_MOST_OPERATORS = 12


def register() -> None:
    """Takes the place of Inductor's lowerings of attention, for tensors on `npu`."""
    for overload, lower, is_taken in ((_FORWARD, _forward, _takes), (_BACKWARD, _backward, _takes_backward)):
        original = lowering.lowerings[overload]
        constraint = lowering._maybe_layout_constraints.get(overload)
        chosen = or_else(original, lower, str(overload), is_taken)
        lowering.register_lowering(overload, type_promotion_kind=None)(chosen)
        if constraint is not None:
            lowering.add_layout_constraint(overload, unless_taken(constraint, is_taken))


def _takes(
    query: Any,
    key: Any,
    value: Any,
    attn_bias: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> bool:
    return is_on_npu(query) and dropout_p == 0 and not return_debug_mask and _is_for_kernels(query, key, value)


def _takes_backward(
    grad_out: Any, query: Any, key: Any, value: Any, attn_bias: Any, mask: Any, *others: Any, **options: Any
) -> bool:
    dropout_p, is_causal = others[6:8]
    # Tiles behind the diagonal are not visited; PyTorch's function has no mask beside `is_causal`.
    leaves_gradients_out = is_causal and attn_bias is not None and mask[3]
    is_plain = dropout_p == 0 and not leaves_gradients_out
    return is_on_npu(query) and is_plain and _is_for_kernels(query, key, value)


def _is_for_kernels(query: Any, key: Any, value: Any) -> bool:
    return why_no_kernel(query, key, value) is None and why_slower(query, key) is None


def _forward(
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    attn_bias: ir.TensorBox | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """[B, H, M, D], [B, G, N, D], [B, G, N, E] -> result [B, H, M, E], logarithms [B, H, M] in float32, and what only
    dropout would need.
    """
    out = V.graph.current_node.meta["val"][0]
    tensors = [readable(each) for each in (query, key, value)]
    attention, reads = attention_of(tensors, attn_bias, is_causal, scale)
    rows = list(query.get_size()[:3])
    device = query.get_device()
    wanted = wanted_results(9)
    logs = written_to(rows, None, torch.float32, device) if 1 in wanted else None
    inputs = [*map(base_of, tensors), *reads.nodes()]
    result = AttentionBuffer(dense_layout(out), Pass.FORWARD, attention, inputs, (), [logs], reads.sizes())
    seeds = [_no_seed(device) if place in wanted else None for place in (6, 7)]
    logarithms = None if logs is None else ir.TensorBox.create(logs)
    return (_box(result), logarithms, None, None, rows[2], key.get_size()[2], *seeds, None)


def _backward(
    grad_out: ir.TensorBox,
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    attn_bias: ir.TensorBox | None,
    grad_input_mask: list[bool],
    out: ir.TensorBox,
    logsumexp: ir.TensorBox,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: Any,
    max_k: Any,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """The gradients of query, key, value and, where it needs one, of what is added to scores, in their dtypes."""
    tensors = [readable(each) for each in (query, key, value)]
    attention, reads = attention_of(tensors, attn_bias, is_causal, scale)
    delta = delta_of(out, grad_out)
    kept = []
    if attn_bias is not None and grad_input_mask[3]:
        attention = replace(attention, kept=(lambda product, weighted: weighted,))
        kept.append(values_of_scores(attention, _dtype_of_gradient(attention, attn_bias), query.get_device()))
    results = gradients(attention, tensors, reads, grad_out, logsumexp, delta, kept=kept)
    return (*results, _summed(kept[0], attn_bias) if kept else None)


def _dtype_of_gradient(attention: Attention, bias: ir.TensorBox) -> torch.dtype:
    """That of the gradient of all scores: float32 where it is summed."""
    is_whole = V.graph.sizevars.statically_known_list_equals(bias.get_size(), list(attention.sizes()))
    return bias.get_dtype() if is_whole else torch.float32


def values_of_scores(attention: Attention, dtype: torch.dtype, device: torch.device) -> ir.IRNode:
    """Memory [B, H, M, N] for a value of each score, each key's queries one after the other, as the kernel has them.
    It has zeros where a BlockMask leaves tiles out.
    """
    sizes = list(attention.sizes())
    _, heads, rows, columns = sizes
    strides = [heads * rows * columns, rows * columns, sympy.S.One, rows]
    return written_to(sizes, strides, dtype, device, has_zeros=attention.blocks is not None)


def _summed(d_score: ir.IRNode, bias: ir.TensorBox) -> ir.TensorBox:
    """The gradient of scores [B, H, M, N], summed along the axes along which `bias` is broadcast, in its dtype."""
    result = ir.TensorBox.create(d_score)
    size = [sympy.S.One] * (4 - len(bias.get_size())) + list(bias.get_size())
    known = V.graph.sizevars.statically_known_equals
    axes = [axis for axis in range(4) if known(size[axis], 1) and not known(d_score.get_size()[axis], 1)]
    if axes:
        result = lowering.lowerings[_aten.sum.dim_IntList](result, axes, True)
    return lowering.to_dtype(lowering.view(result, list(bias.get_size())), bias.get_dtype())


def gradients(
    attention: Attention,
    tensors: list[ir.IRNode],
    reads: Reads,
    grad_out: ir.TensorBox,
    logarithms: ir.TensorBox,
    delta: ir.TensorBox,
    lists: tuple[BlockLists, BlockLists | None] | None = None,
    nodes: Sequence[ir.IRNode] = (),
    kept: Sequence[ir.IRNode] = (),
) -> tuple[ir.TensorBox, ir.TensorBox, ir.TensorBox]:
    """The gradients of queries, keys and values, which `tensors` are, as two kernels. The layouts are those that the
    operator which is being lowered promises. `lists`: blocks of keys for each block of queries, and blocks of queries
    for each block of keys, which lie in `nodes`. `kept`: memory [B, H, M, N] for each of what `attention` keeps.
    """
    d_query, d_key, d_value = (dense_layout(each) for each in V.graph.current_node.meta["val"][:3])
    others = [readable(each) for each in (grad_out, logarithms, delta)]
    operands = [Tensor.of(each) for each in others]
    inputs = [*map(base_of, (*tensors, *others)), *nodes, *reads.nodes()]
    of_keys = attention if lists is None else replace(attention, blocks=lists[1])
    values = written_to(d_value.size, d_value.stride, d_value.dtype, d_value.device)
    keys = AttentionBuffer(d_key, Pass.KEYS_AND_VALUES, of_keys, inputs, operands, [values], reads.sizes())
    queries = AttentionBuffer(d_query, Pass.QUERIES, attention, inputs, operands, kept, reads.sizes())
    return _box(queries), _box(keys), ir.TensorBox.create(values)


def _no_seed(device: torch.device) -> ir.TensorBox:
    """The seed of no dropout: a number that nobody reads, in memory that nobody writes."""
    return lowering.view(lowering.empty_strided([1], None, dtype=torch.int64, device=device), [])


def delta_of(out: ir.TensorBox, grad_out: ir.TensorBox) -> ir.TensorBox:
    """The sum of `out * grad_out` for each query, in float32: those of a head one after the other, as kernels read
    them, in whatever order `out` lies in memory.
    """
    wide = [lowering.to_dtype(each, torch.float32) for each in (out, grad_out)]
    sums = lowering.lowerings[_aten.sum.dim_IntList](lowering.lowerings[_aten.mul.Tensor](*wide), [-1])
    return ir.ExternKernel.require_contiguous(sums)


def _box(buffer: AttentionBuffer) -> ir.TensorBox:
    return ir.TensorBox(ir.StorageBox(buffer))


def attention_of(
    tensors: list[ir.IRNode], bias: ir.TensorBox | None, is_causal: bool, scale: float | None
) -> tuple[Attention, Reads]:
    """Returns the attention of these tensors, which are in memory, and what its mask reads. `bias`: what is added to
    scores; `scale`: the factor of products, None for the usual one.
    """
    query, key, value = map(Tensor.of, tensors)
    attention = Attention(
        query=query,
        key=key,
        value=value,
        scale=1 / math.sqrt(int(query.sizes[3])) if scale is None else scale,
        is_causal=is_causal,
    )
    if bias is None:
        return attention, Reads()
    added = _added(bias, attention)
    reads = Reads.of([lambda: added("score")])
    if not reads.is_affine:
        added = _added(copied(bias), attention)
        reads = Reads.of([lambda: added("score")])
    return replace(attention, score=added, masks_rows=True), reads


def _decide_layouts(mask: ir.TensorBox) -> None:
    """Has the buffers that `mask` is made of keep their strides, which the kernel's reads of them depend on."""
    node: Any = mask
    while isinstance(node, (ir.MutableBox, ir.BaseView)):
        node = node.data
    if isinstance(node, ir.Buffer):
        node.freeze_layout()
        return
    for name in node.get_read_names():
        buffer = V.graph.try_get_buffer(name)
        if isinstance(buffer, ir.Buffer):
            buffer.freeze_layout()


def _added(bias: ir.TensorBox, attention: Attention) -> Modification:
    """What adds the mask `bias` to a score. A mask that a few operators make is made for each tile, never stored."""
    data = bias.data.data if isinstance(bias.data, ir.StorageBox) else None
    if isinstance(data, ir.Pointwise) and data.inner_fn_opcount().num_ops > _MOST_OPERATORS:
        bias.realize()
    _decide_layouts(bias)
    load = lowering.expand(bias, list(attention.sizes())).make_loader()

    def add(score: Any) -> Any:
        return ops.to_dtype(load(list(AXES)), torch.float32) + score

    return add

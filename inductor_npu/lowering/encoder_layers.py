"""The operators of `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` in eval mode, decomposed on `npu`.

Without gradients both modules call one operator for all they do, for which Inductor generates no code. What it computes
is written out in `native_multi_head_attention_cpu` (aten/src/ATen/native/transformers/attention.cpp) and
`transformer_encoder_layer_forward` (transformer.cpp).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._inductor.decomposition import register_decomposition

_aten = torch.ops.aten
_DEVICE = "npu"
# `mask_type`: a mask of queries and keys; of batches and keys; of all scores.
_OF_POSITIONS, _OF_KEYS = 0, 1


def register() -> None:
    """Adds both to Inductor's decompositions, which leave the operators of other devices alone."""
    register_decomposition(_aten._transformer_encoder_layer_fwd.default)(_encoder_layer)
    register_decomposition(_aten._native_multi_head_attention.default)(_attention)


def _is_ours(tensor: Tensor) -> bool:
    return tensor.device.type == _DEVICE and not tensor.is_nested


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """[B, N, `embed_dim`] -> the same."""
    if not _is_ours(src):
        return NotImplemented

    def attend(x: Tensor) -> Tensor:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def feed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    def first_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(first_norm(src))
        return x + feed_forward(second_norm(x))
    x = first_norm(src + attend(src))
    return second_norm(x + feed_forward(x))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """[B, M, E], [B, N, E] twice -> [B, M, E], and the weights [B, M, N], or [B, heads, M, N] where not averaged."""
    if not _is_ours(query):
        return NotImplemented
    if query is key and key is value:
        projected = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        each = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        projected = tuple(F.linear(*operands) for operands in each)
    queries, keys, values = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in projected)
    allowed = None if mask is None else _allowed(mask, mask_type)
    if need_weights:
        scores = queries / queries.shape[-1] ** 0.5 @ keys.mT
        weights = (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(-1)
        out = weights @ values
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out, weights = F.scaled_dot_product_attention(queries, keys, values, allowed), None
    return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _allowed(mask: Tensor, mask_type: int | None) -> Tensor:
    """Which scores count: `mask` names those that do not, as numbers that are not 0 if it is not of booleans."""
    left_out = mask.bool()
    if mask_type == _OF_POSITIONS:
        left_out = left_out[None, None]
    elif mask_type == _OF_KEYS:
        left_out = left_out[:, None, None]
    return ~left_out

"""Whether kernels of ours compute an attention, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu import config, providers
from inductor_npu.tiling.attention import MOST_ROWS
from inductor_npu.tiling.cube import FLOATS

_FORWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default

# torch_npu's names for attention and its gradients (lowering/attention/torch_npu.py).
FUSED_FORWARD, FUSED_BACKWARD = "npu_fusion_attention_v3", "npu_fusion_attention_grad_v3"
_FUSED = (f"npu.{FUSED_FORWARD}.default", f"npu.{FUSED_BACKWARD}.default")
# What they take that no kernel of ours does, unless it has this value.
_PLAIN = {
    "pse": None,
    "padding_mask": None,
    "keep_prob": 1.0,
    "pre_tockens": 2147483647,
    "next_tockens": 2147483647,
    "prefix": None,
    "actual_seq_qlen": None,
    "actual_seq_kvlen": None,
    "softmax_layout": "",
    "sink": None,
}
# `sparse_mode`: a mask, or none; a mask of its own; keys up to each query's position.
_NO_MODE, _ALL_OF_THE_MASK, _CAUSAL = 0, 1, 2

_LONGEST_HEAD = 256
_SHORT = 64  # lengths up to which a launch costs more than what is computed

# Sizes, each a number or an expression, and dtype of queries, keys or values.
Operand = tuple[Sequence[Any], torch.dtype]


def why_no_kernel(query: Operand, key: Operand, value: Operand) -> str | None:
    """Returns why no kernel of ours takes these tensors; None if one does."""
    chip = providers.current_target()
    if config.templates == "none":
        return "INDUCTOR_NPU_TEMPLATES=none"
    if not chip.cube_cores:
        return f"{chip.name} has no cube cores"
    if any(len(sizes) != 4 for sizes, _ in (query, key, value)):
        return "tensors that have not four axes"
    dtypes = {dtype for _, dtype in (query, key, value)}
    if len(dtypes) > 1 or FLOATS.get(query[1]) not in chip.float_types:
        return f"the dtypes {', '.join(sorted(map(str, dtypes)))}"
    for length in (query[0][3], value[0][3]):
        if not isinstance(length, (int, sympy.Integer)) or not 0 < length <= _LONGEST_HEAD:
            return f"heads of dimension {length}"
    if any(size == 0 for sizes, _ in (query, key) for size in sizes):
        return "an empty tensor"
    return None


def why_slower(rows: int, columns: int, has_gradients: bool) -> str | None:
    """Returns why the library, where it has the same, is known to be faster for so many queries and keys; None if it is
    not known to be.
    """
    if config.templates != "auto" or not has_gradients:
        return None
    padded = _padded(rows) * _padded(columns)
    is_long = max(rows, columns) > _SHORT
    if not is_long or padded <= providers.current_provider().most_padding * rows * columns:
        return None
    return f"blocks would pad the scores of {rows} queries and {columns} keys to {padded / (rows * columns):.2g} times"


def _padded(length: int) -> int:
    """`length` up to the end of the longest blocks that a tile may have along it."""
    block = min(MOST_ROWS, next_power_of_2(length))
    return -(-length // block) * block


def has_gradients(node: torch.fx.Node) -> bool:
    """Whether the call `node` of a graph is the gradient of an attention, or one that keeps something for it: more of
    its results than the first is used.
    """
    return node.target is _BACKWARD or any(user.args[1:] != (0,) for user in node.users)


def is_attention(node: torch.fx.Node) -> bool:
    """Whether the call `node` of a graph is an attention, or its gradient, that may be kernels of ours."""
    return node.target in (_FORWARD, _BACKWARD) or _is_fused(node)


def _is_fused(node: torch.fx.Node) -> bool:
    return str(node.target) in _FUSED


def is_causal(node: torch.fx.Node) -> bool:
    """Whether a query sees no key behind its own position, in a call `node` of torch_npu's attention. Its mask is one
    for any lengths then.
    """
    return _named(node)["sparse_mode"] == _CAUSAL


def _named(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of a call by the names of the operator's schema."""
    arguments = node.target._schema.arguments
    given = dict(zip((each.name for each in arguments), node.args, strict=False))
    return {**{each.name: each.default_value for each in arguments}, **given, **node.kwargs}


def _why_not_plain(node: torch.fx.Node) -> str | None:
    """Why kernels of ours do not take a call of torch_npu's attention, whatever its tensors are."""
    named = _named(node)
    if config.templates == "auto":
        return "torch_npu's fused operator, unless INDUCTOR_NPU_TEMPLATES=all"
    if named["input_layout"] != "BNSD":
        return f"tensors in the order {named['input_layout']}"
    plain = {**_PLAIN, "next_tockens": 0} if is_causal(node) else _PLAIN
    for name, value in plain.items():
        if named[name] != value:
            return f"{name} of {named[name]}"
    if named["sparse_mode"] not in (_NO_MODE, _ALL_OF_THE_MASK, _CAUSAL):
        return f"sparse_mode {named['sparse_mode']}"
    return None


def why_library(node: torch.fx.Node) -> str | None:
    """Returns why the library computes the attention that the call `node` of a graph is; None if kernels of ours do."""
    if _is_fused(node) and (reason := _why_not_plain(node)) is not None:
        return reason
    first = 1 if node.target is _BACKWARD else 0  # the gradient of the result is first
    values = [each.meta["val"] for each in node.args[first : first + 3]]
    sizes = [[size if isinstance(size, int) else size.node.expr for size in value.shape] for value in values]
    if (reason := why_no_kernel(*((size, value.dtype) for size, value in zip(sizes, values, strict=True)))) is not None:
        return reason
    lengths = [value.shape[2] for value in values[:2]]
    rows, columns = (length if isinstance(length, int) else length.node.hint for length in lengths)
    return None if None in (rows, columns) else why_slower(rows, columns, has_gradients(node))

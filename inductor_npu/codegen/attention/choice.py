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


def why_slower(rows: int, columns: int) -> str | None:
    """Returns why the library, where it has the same, is known to be faster for so many queries and keys; None if it is
    not known to be.
    """
    if config.templates != "auto":
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


def is_attention(node: torch.fx.Node) -> bool:
    """Whether the call `node` of a graph is an attention, or its gradient, that may be kernels of ours."""
    return node.target in (_FORWARD, _BACKWARD)


def why_library(node: torch.fx.Node) -> str | None:
    """Returns why the library computes the attention that the call `node` of a graph is; None if kernels of ours do."""
    first = 1 if node.target is _BACKWARD else 0  # the gradient of the result is first
    values = [each.meta["val"] for each in node.args[first : first + 3]]
    sizes = [[size if isinstance(size, int) else size.node.expr for size in value.shape] for value in values]
    if (reason := why_no_kernel(*((size, value.dtype) for size, value in zip(sizes, values, strict=True)))) is not None:
        return reason
    lengths = [value.shape[2] for value in values[:2]]
    rows, columns = (length if isinstance(length, int) else length.node.hint for length in lengths)
    return None if None in (rows, columns) else why_slower(rows, columns)

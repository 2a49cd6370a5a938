"""Lowers `_grouped_mm` on `npu`, a product for each group of rows (mixture of experts), to a kernel of the cube cores.

Where both operands have a first axis for the groups it is a batch of products. PyTorch's gradients are grouped
products again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from inductor_npu.codegen.grouped.buffer import GroupedBuffer
from inductor_npu.codegen.grouped.problem import Along, GroupedProduct, why_library
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.lowering import contractions
from inductor_npu.lowering.operands import base_of, dense_layout, in_memory, is_on_npu, or_else, unless_taken

_OPERATOR = torch.ops.aten._grouped_mm.default


def register() -> None:
    """Takes the place of Inductor's lowering of `_grouped_mm`, for tensors on `npu`."""
    original = lowering.lowerings[_OPERATOR]
    constraint = lowering._maybe_layout_constraints.get(_OPERATOR)
    chosen = or_else(original, _lower, str(_OPERATOR), _takes)
    lowering.register_lowering(_OPERATOR, type_promotion_kind=None)(chosen)
    if constraint is not None:
        lowering.add_layout_constraint(_OPERATOR, unless_taken(constraint, _takes))


def _takes(
    left: Any, right: Any, offs: Any = None, bias: Any = None, out_dtype: torch.dtype | None = None, **options: Any
) -> bool:
    return is_on_npu(left) and not why_library((left.get_dtype(), right.get_dtype()), out_dtype, bias is not None)


def _lower(
    left: ir.TensorBox,
    right: ir.TensorBox,
    offs: ir.TensorBox | None = None,
    bias: None = None,
    out_dtype: torch.dtype | None = None,
    *,
    layout: Any = None,
) -> ir.TensorBox | None:
    """Of [M, K] and [G, K, N], [G, M, K] and [K, N], or [M, K] and [K, N]: groups lie along the axis of which a tensor
    without a first one has those of all groups.
    """
    result = dense_layout(V.graph.current_node.meta["val"])
    axes = len(left.get_size()), len(right.get_size())
    if axes == (3, 3):
        return contractions.product(left, right, result.dtype)
    if any(V.graph.sizevars.statically_known_equals(size, 0) for size in result.size):
        return lowering.full(result.size, 0, dtype=result.dtype, device=result.device)
    along = {(2, 3): Along.ROWS, (3, 2): Along.COLUMNS, (2, 2): Along.INNER}[axes]
    left, right = in_memory(left, _is_readable), in_memory(right, _is_readable)
    offs = in_memory(offs, lambda stored: True)
    product = GroupedProduct(Tensor.of(left), Tensor.of(right), Tensor.of(offs), along)
    buffer = GroupedBuffer(result, product, [base_of(left), base_of(right), base_of(offs)])
    return ir.TensorBox.create(buffer)


def _is_readable(stored: ir.IRNode) -> bool:
    """Whether matrices lie along their rows or columns, without steps."""
    known, strides = V.graph.sizevars.statically_known_equals, stored.get_stride()[-2:]
    return any(known(stride, 1) for stride in strides) and not any(known(stride, 0) for stride in strides)

"""Stores a sum of tensors before one operand more is added.

Inductor computes a pointwise value where it is used, until it has more than eight operands
(`StorageBox.has_exceeded_max_reads` in torch/_inductor/ir.py). A sum of as many gradients of one weight then keeps all
of them in memory up to its end. Where a stored sum can be one kernel with what computes an operand, or with what reads
it, fusion makes it one.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from inductor_npu.lowering.operands import is_on_npu

_OPERANDS = 3
_OPERATIONS = {"load", "add", "to_dtype"}
_OPERATOR = torch.ops.aten.add


def register() -> None:
    """Takes the place of Inductor's lowering of additions, for tensors on `npu`."""
    original = lowering.lowerings[_OPERATOR.Tensor]

    @functools.wraps(original)
    def add(*operands: Any, **options: Any) -> Any:
        result = original(*operands, **options)
        if is_on_npu(result):
            store_sum(result)
        return result

    lowering.register_lowering([_OPERATOR, _OPERATOR.Tensor], type_promotion_kind=None, broadcast=False)(add)


def store_sum(result: ir.TensorBox) -> None:
    """Stores `result` if it is nothing but a sum of three whole tensors or more."""
    if not isinstance(result.data, ir.StorageBox) or not isinstance(result.data.data, ir.Pointwise):
        return
    reads, is_equal = result.get_reads(), V.graph.sizevars.statically_known_equals
    if (
        len(reads) >= _OPERANDS
        and set(result.data.data.inner_fn_opcount().used_ops) <= _OPERATIONS
        and all(is_equal(read.get_numel(), result.get_numel()) for read in reads)
    ):
        result.realize()

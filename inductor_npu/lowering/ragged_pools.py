"""Lowers the gradient of average pooling on `npu` where `ceil_mode` leaves windows that end beyond the padding.

The elements of such a window are divided by how many of them lie in the padded tensor. Inductor's lowering divides all
windows by the size of a whole one, on every device (torch 2.9 to 2.15).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops

from inductor_npu.lowering.operands import is_on_npu

_OPERATORS = (torch.ops.aten.avg_pool2d_backward, torch.ops.aten.avg_pool3d_backward)


def register() -> None:
    """Divides gradients before Inductor's lowerings add them up, for tensors on `npu`."""
    for operator in _OPERATORS:
        original = lowering.lowerings[operator.default]
        lowering.register_lowering([operator, operator.default], type_promotion_kind=None)(_dividing_first(original))


def _dividing_first(original: Any) -> Any:
    @functools.wraps(original)
    def chosen(
        grad_output: ir.TensorBox,
        x: ir.TensorBox,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> ir.TensorBox:
        settings = kernel_size, stride, padding, ceil_mode, count_include_pad
        if not is_on_npu(x) or not (ceil_mode and count_include_pad) or divisor_override is not None:
            return original(grad_output, x, *settings, divisor_override)
        divided = _divided(grad_output, x, kernel_size, stride or kernel_size, padding or [0] * len(kernel_size))
        return original(grad_output, x, *settings) if divided is None else original(divided, x, *settings, 1)

    return chosen


def _divided(
    grad_output: ir.TensorBox,
    x: ir.TensorBox,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> ir.TensorBox | None:
    """`grad_output`, each element divided by the size of its window; None if all windows are whole."""
    axes = len(kernel_size)
    padded = [size + 2 * border for size, border in zip(x.get_size()[-axes:], padding, strict=True)]
    starts = [(count - 1) * step for count, step in zip(grad_output.get_size()[-axes:], stride, strict=True)]
    is_whole = V.graph.sizevars.statically_known_leq
    if all(is_whole(start + size, end) for start, size, end in zip(starts, kernel_size, padded, strict=True)):
        return None
    load, dtype = grad_output.make_loader(), grad_output.get_dtype()

    def length(place: sympy.Expr, step: int, size: int, end: sympy.Expr) -> Any:
        rest = ops.index_expr(sympy.expand(end - place * step), torch.int32)
        return ops.minimum(rest, ops.constant(size, torch.int32))

    def quotient(index: Sequence[sympy.Expr]) -> Any:
        lengths = map(length, index[-axes:], stride, kernel_size, padded)
        return ops.truediv(load(index), ops.to_dtype(functools.reduce(ops.mul, lengths), dtype))

    return ir.Pointwise.create(
        device=grad_output.get_device(), dtype=dtype, inner_fn=quotient, ranges=grad_output.get_size()
    )

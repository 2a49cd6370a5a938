"""Lowers matrix products on `npu` to loops: a contraction, which code generation makes a kernel of the cube cores.

Inductor's IR has a sum of products as two operators: `ops.dot` of two loads, inside a reduction of type "dot"
(torch/_inductor/kernel/mm.py, "native matmul"). Such loops are scheduled and fused as others are. What the chip's cube
cores do not take, and what `config.templates` leaves to the library, keeps Inductor's own lowering, which calls the
operator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops

from inductor_npu import config, providers
from inductor_npu.target import NpuTarget

_DEVICE = "npu"
_aten = torch.ops.aten

# Operands of products, by what a chip's `float_types` call them.
_FLOATS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


def register() -> None:
    """Takes the place of Inductor's lowerings of matrix products, for tensors on `npu`."""
    for operator, lower in (
        (_aten.mm, _mm),
        (_aten.bmm, _bmm),
        (_aten.addmm, _addmm),
        (_aten.baddbmm, _baddbmm),
        (_aten._int_mm, _int_mm),
    ):
        original = lowering.lowerings[operator.default]
        lowering.register_lowering([operator, operator.default], type_promotion_kind=None)(_or_else(original, lower))


def _or_else(original: Callable[..., Any], lower: Callable[..., Any]) -> Callable[..., Any]:
    """`lower`, which returns None for what it does not take; then `original`."""

    @functools.wraps(original)
    def chosen(*args: Any, **options: Any) -> Any:
        result = None
        if any(isinstance(arg, ir.IRNode) and ir.get_device_type(arg) == _DEVICE for arg in args):
            result = lower(*args, **options)
        return original(*args, **options) if result is None else result

    return chosen


# -- operators --------------------------------------------------------------------------------------------------------


def _mm(left: ir.TensorBox, right: ir.TensorBox, *, layout: Any = None) -> ir.TensorBox | None:
    return _product(left, right)


_bmm = _mm


def _int_mm(left: ir.TensorBox, right: ir.TensorBox, *, layout: Any = None) -> ir.TensorBox | None:
    return _product(left, right, torch.int32)


def _addmm(
    added: ir.TensorBox,
    left: ir.TensorBox,
    right: ir.TensorBox,
    *,
    beta: float = 1,
    alpha: float = 1,
    layout: Any = None,
) -> ir.TensorBox | None:
    # The sum is rounded once, as in eager, also where it is a kernel of its own.
    product = _product(left, right, torch.float32)
    return None if product is None else _scaled_sum(added, product, left.get_dtype(), beta, alpha)


_baddbmm = _addmm


def _scaled_sum(
    added: ir.TensorBox, product: ir.TensorBox, dtype: torch.dtype, beta: float, alpha: float
) -> ir.TensorBox:
    """`beta * added + alpha * product` in `dtype`; what is scaled by 0 is not read, as in eager, not even its NaNs."""

    def scaled(value: Any, by: float) -> Any:
        return value if by == 1 else ops.mul(value, ops.constant(by, torch.float32))

    load_product = product.make_loader()
    load_added = lowering.expand(added, product.get_size()).make_loader() if beta != 0 else None

    def of(index: Sequence[sympy.Expr]) -> Any:
        result = scaled(load_product(index), alpha)
        return result if load_added is None else ops.add(scaled(load_added(index), beta), result)

    return ir.Pointwise.create(
        device=product.get_device(), dtype=dtype, inner_fn=of, ranges=product.get_size()
    )


# -- a product --------------------------------------------------------------------------------------------------------


def _product(left: ir.TensorBox, right: ir.TensorBox, result: torch.dtype | None = None) -> ir.TensorBox | None:
    """`left @ right` as loops, of [*batch, M, K] and [*batch, K, N], in dtype `result` or that of the operands; None
    where the library computes it.
    """
    if not _takes(left, right, providers.current_target()):
        return None
    left, right = _readable(left), _readable(right)
    *batch, rows, inner = left.get_size()
    columns = right.get_size()[-1]
    load_left, load_right = _loader(left), _loader(right)

    def of(index: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> Any:
        *outer, row, column = index
        return ops.dot(load_left([*outer, row, *reduced]), load_right([*outer, *reduced, column]))

    made = ir.Reduction.create(
        device=left.get_device(),
        dst_dtype=result or left.get_dtype(),
        src_dtype=left.get_dtype(),
        inner_fn=of,
        ranges=[*batch, rows, columns],
        reduction_ranges=[inner],
        reduction_type="dot",
    )
    made.realize()
    return made


def _takes(left: ir.TensorBox, right: ir.TensorBox, chip: NpuTarget) -> bool:
    """Whether a kernel of ours computes the product of these operands on `chip`."""
    if config.templates == "none" or not chip.cube_cores or left.get_dtype() != right.get_dtype():
        return False
    dtype = left.get_dtype()
    if dtype != torch.int8 and _FLOATS.get(dtype) not in chip.float_types:
        return False
    sizes = [left.get_size()[-2], left.get_size()[-1], right.get_size()[-1]]
    # A product with one row or column reads each element of a matrix once: a sum on the vector cores, or the library.
    return not any(V.graph.sizevars.statically_known_leq(size, 1) for size in sizes)


def _readable(operand: ir.IRNode) -> ir.IRNode:
    """`operand` in memory, contiguous along its rows or its columns: the cube cores read nothing else."""
    operand = ir.ExternKernel.realize_input(operand)
    ir.as_storage_and_layout(operand, freeze=True)
    *_, row, column = operand.get_stride()
    known = V.graph.sizevars.statically_known_equals
    is_contiguous = any(known(stride, 1) for stride in (row, column))
    is_in_memory = operand.get_dtype() == V.graph.get_dtype(operand.get_name())
    if is_contiguous and is_in_memory and not any(known(stride, 0) for stride in (row, column)):
        return operand
    copy = ir.ExternKernel.copy_input(operand)
    ir.as_storage_and_layout(copy, freeze=True)
    return copy


def _loader(operand: ir.IRNode) -> Callable[[Sequence[sympy.Expr]], Any]:
    """Loads elements of `operand`, which is in memory; Inductor's own loader may compute them again instead."""
    name, address = operand.get_name(), operand.get_layout().make_indexer()
    return lambda index: ops.load(name, address(index))

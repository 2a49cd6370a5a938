"""Lowers matrix products on `npu` to loops: a contraction, which code generation makes a kernel of the cube cores.

Inductor's IR has a sum of products as two operators: `ops.dot` of two loads, inside a reduction of type "dot"
(torch/_inductor/kernel/mm.py, "native matmul"). Such loops are scheduled and fused as others are. A vector times a
matrix is a sum on the vector cores. What the chip's cores do not take, and what `config.templates` leaves to the
library, keeps Inductor's own lowering, which calls the operator.
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
    result = result or left.get_dtype()
    sizes = (left.get_size()[-2], left.get_size()[-1], right.get_size()[-1])
    if V.graph.sizevars.statically_known_equals(sizes[1], 0):
        shape = [*left.get_size()[:-1], sizes[2]]
        return lowering.full(shape, 0, dtype=result, device=left.get_device())
    if not any(V.graph.sizevars.statically_known_equals(size, 1) for size in sizes):
        return _contraction(_readable(left), _readable(right), result)
    return _sum(left, right, result) if left.get_dtype().is_floating_point else None


def _takes(left: ir.TensorBox, right: ir.TensorBox, chip: NpuTarget) -> bool:
    """Whether a kernel of ours computes the product of these operands on `chip`."""
    if config.templates == "none" or not chip.cube_cores or left.get_dtype() != right.get_dtype():
        return False
    return left.get_dtype() == torch.int8 or _FLOATS.get(left.get_dtype()) in chip.float_types


def _contraction(left: ir.IRNode, right: ir.IRNode, result: torch.dtype) -> ir.TensorBox:
    """The product as a contraction; the operands are in memory."""
    load_left, load_right = _loader(left), _loader(right)

    def of(index: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> Any:
        *outer, row, column = index
        return ops.dot(load_left([*outer, row, *reduced]), load_right([*outer, *reduced, column]))

    return _reduction(left, right, of, "dot", result)


def _sum(left: ir.TensorBox, right: ir.TensorBox, result: torch.dtype) -> ir.TensorBox:
    """The product as a sum of products in float32, for an operand of one row or column: each element of the other is
    read once, which is all the work. What computes that other operand can be fused.
    """
    for operand, repeats in ((left, right.get_size()[-1]), (right, left.get_size()[-2])):
        if not V.graph.sizevars.statically_known_equals(repeats, 1):
            operand.realize()
    load_left, load_right = left.make_loader(), right.make_loader()

    def of(index: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> Any:
        *outer, row, column = index
        factors = load_left([*outer, row, *reduced]), load_right([*outer, *reduced, column])
        return ops.mul(*(ops.to_dtype(factor, torch.float32) for factor in factors))

    return _reduction(left, right, of, "sum", result)


def _reduction(
    left: ir.IRNode, right: ir.IRNode, of: Callable[..., Any], kind: ir.ReductionType, result: torch.dtype
) -> ir.TensorBox:
    """`of` the indices of the result and the index of the sum, summed."""
    *batch, rows, inner = left.get_size()
    made = ir.Reduction.create(
        device=left.get_device(),
        dst_dtype=result,
        src_dtype=left.get_dtype() if kind == "dot" else torch.float32,
        inner_fn=of,
        ranges=[*batch, rows, right.get_size()[-1]],
        reduction_ranges=[inner],
        reduction_type=kind,
    )
    made.realize()
    return made


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

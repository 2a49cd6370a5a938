"""Lowers matrix products on `npu` to loops: a contraction, which code generation makes a kernel of the cube cores.

Inductor's IR has a sum of products as two operators: `ops.dot` of two loads, inside a reduction of type "dot"
(torch/_inductor/kernel/mm.py, "native matmul"). Such loops are scheduled and fused as others are. A vector times a
matrix is a sum on the vector cores. What the chip's cores do not take, and what `config.templates` leaves to the
library, keeps Inductor's own lowering, which calls the operator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.ops_handler import DefaultHandler, WrapperHandler
from torch._inductor.virtualized import V, ops

from inductor_npu import providers
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.lowering.operands import in_memory, is_on_npu, or_else
from inductor_npu.lowering.sums import store_sum
from inductor_npu.tiling import cube
from inductor_npu.tiling.conversions import is_converted_inside
from inductor_npu.tiling.plan import FILLED
from inductor_npu.tiling.splits import parts_of_sum

_aten = torch.ops.aten

# What the product of a few rows converts itself: every one is a float16, and a bfloat16.
_CONVERTED = torch.int8

# Loads the element at an index, in each dimension of a tensor.
_Loader = Callable[[Sequence[sympy.Expr]], Any]


def register() -> None:
    """Takes the place of Inductor's lowerings of matrix products, for tensors on `npu`."""
    for operator, lower in (
        (_aten.mm, _mm),
        (_aten.bmm, _mm),
        (_aten.addmm, _addmm),
        (_aten.baddbmm, _addmm),
        (_aten._int_mm, _int_mm),
    ):
        original = lowering.lowerings[operator.default]
        chosen = or_else(original, lower, str(operator))
        lowering.register_lowering([operator, operator.default], type_promotion_kind=None)(chosen)
    for operator, lower in ((_aten.mm, _mm), (_aten.bmm, _mm), (_aten.addmm, _addmm)):
        if "dtype" in operator.overloads():
            chosen = or_else(_refused_on_npu(operator.dtype), lower, str(operator.dtype))
            lowering.register_lowering(operator.dtype, type_promotion_kind=None)(chosen)


def _refused_on_npu(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """Inductor's lowering of a product with a dtype for its result, which PyTorch has for CUDA and XPU only: what is no
    kernel of ours raises NotImplementedError.
    """
    original = lowering.lowerings[operator]

    @functools.wraps(original)
    def refused(*args: Any, **options: Any) -> Any:
        if not any(map(is_on_npu, args)):
            return original(*args, **options)
        *_, left, right, dtype = args
        dtypes = left.get_dtype(), right.get_dtype()
        reason = cube.why_library(dtypes, providers.current_target()) or f"{dtypes[0]} has no products of {dtype}"
        raise NotImplementedError(
            f"{operator} on npu: {reason}, and no library computes it. Cast the operands instead."
        )

    return refused


# -- operators --------------------------------------------------------------------------------------------------------


def _mm(
    left: ir.TensorBox, right: ir.TensorBox, out_dtype: torch.dtype | None = None, *, layout: Any = None
) -> ir.TensorBox | None:
    return product(left, right, out_dtype) if _is_result(out_dtype, left) else None


def _is_result(dtype: torch.dtype | None, operand: ir.TensorBox) -> bool:
    """Whether a product of matrices like `operand` may have this dtype, as PyTorch rules for CUDA."""
    return dtype in (None, operand.get_dtype(), torch.float32)


def _int_mm(left: ir.TensorBox, right: ir.TensorBox, *, layout: Any = None) -> ir.TensorBox | None:
    return product(left, right, torch.int32)


def _addmm(
    added: ir.TensorBox,
    left: ir.TensorBox,
    right: ir.TensorBox,
    out_dtype: torch.dtype | None = None,
    *,
    beta: float = 1,
    alpha: float = 1,
    layout: Any = None,
) -> ir.TensorBox | None:
    # The sum is rounded once, as in eager, also where it is a kernel of its own.
    summed = product(left, right, torch.float32) if _is_result(out_dtype, left) else None
    return None if summed is None else _scaled_sum(added, summed, out_dtype or left.get_dtype(), beta, alpha)


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
        return result if load_added is None else scaled(load_added(index), beta) + result

    result = ir.Pointwise.create(device=product.get_device(), dtype=dtype, inner_fn=of, ranges=product.get_size())
    store_sum(result)
    return result


# -- a product --------------------------------------------------------------------------------------------------------


def product(left: ir.TensorBox, right: ir.TensorBox, result: torch.dtype | None = None) -> ir.TensorBox | None:
    """Returns `left @ right` as loops, of [*batch, M, K] and [*batch, K, N], in dtype `result` or that of the operands;
    None where the library computes it.
    """
    dtypes = (left.get_dtype(), right.get_dtype())
    if cube.why_library(dtypes, providers.current_target()) is not None:
        return None
    result = result or left.get_dtype()
    sizes = (left.get_size()[-2], left.get_size()[-1], right.get_size()[-1])
    if V.graph.sizevars.statically_known_equals(sizes[1], 0):
        shape = [*left.get_size()[:-1], sizes[2]]
        return lowering.full(shape, 0, dtype=result, device=left.get_device())
    if not any(V.graph.sizevars.statically_known_equals(size, 1) for size in sizes):
        work = _summary(left, right, result)
        load_converted = _loader_of_converted(left, right, work)
        if load_converted is not None:
            work = replace(work, converted=_CONVERTED.itemsize)
        of = _products(_loader(left), load_converted or _loader(right))
        parts = _parts(left, work)
        if parts > 1:
            return _sum_of_parts(left, right, of, parts, result)
        return _reduction(left, right, of, "dot", result)
    return _sum(left, right, result) if left.get_dtype().is_floating_point else None


def _products(load_left: _Loader, load_right: _Loader) -> Callable[..., Any]:
    """The products whose sum along the reduced axis is an element of the result."""

    def of(index: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> Any:
        *outer, row, column = index
        return ops.dot(load_left([*outer, row, *reduced]), load_right([*outer, *reduced, column]))

    return of


def _summary(left: ir.TensorBox, right: ir.TensorBox, result: torch.dtype) -> cube.ProductSummary:
    """The product in dtype `result` as the planner sees it."""
    *batch, rows, inner = left.get_size()
    return cube.ProductSummary(
        rows=max(1, hint(rows)),
        columns=max(1, hint(right.get_size()[-1])),
        inner=max(1, hint(inner)),
        batch=max(1, hint(math.prod(batch))),
        item_size=left.get_dtype().itemsize,
        result_bytes=result.itemsize,
    )


def _parts(left: ir.TensorBox, work: cube.ProductSummary) -> int:
    """Into how many parts the sum of a product is split; 1 where its length is dynamic."""
    if not isinstance(left.get_size()[-1], sympy.Integer):
        return 1
    return parts_of_sum(work, providers.current_target(), FILLED)


def _sum_of_parts(
    left: ir.TensorBox, right: ir.TensorBox, of: Callable[..., Any], parts: int, result: torch.dtype
) -> ir.TensorBox:
    """The product as a batch of `parts` products, each of a part of the sum, that are added up on the vector cores."""
    *outer, inner = left.get_size()
    ranges, length = [*outer, right.get_size()[-1]], inner // parts
    summed_in = torch.int32 if result == torch.int32 else torch.float32
    each = ir.Reduction.create(
        device=left.get_device(),
        dst_dtype=summed_in,
        src_dtype=left.get_dtype(),
        inner_fn=lambda index, reduced: of(index[1:], [index[0] * length + reduced[0]]),
        ranges=[parts, *ranges],
        reduction_ranges=[length],
        reduction_type="dot",
    )
    each.realize()
    # One part after the other, without gaps: the sum goes over one long axis.
    strides = ir.FlexibleLayout.contiguous_strides(each.get_size())
    ir.as_storage_and_layout(each, freeze=True, exact_strides=strides)
    load = each.make_loader()
    made = ir.Reduction.create(
        device=left.get_device(),
        dst_dtype=result,
        src_dtype=summed_in,
        inner_fn=lambda index, reduced: load([*reduced, *index]),
        ranges=ranges,
        reduction_ranges=[parts],
        reduction_type="sum",
    )
    made.realize()
    return made


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


# -- operands ---------------------------------------------------------------------------------------------------------


def _loader(operand: ir.TensorBox) -> _Loader:
    """Loads elements of `operand` from memory: where it is, if the cube cores can read it there, else from a copy."""
    loader = operand.make_loader()
    if _is_readable(loader, operand.get_size()):
        return loader
    return _from_memory(in_memory(operand, lambda placed: _is_readable(_from_memory(placed), placed.get_size())))


def _loader_of_converted(left: ir.TensorBox, right: ir.TensorBox, work: cube.ProductSummary) -> _Loader | None:
    """Loads elements of int8 that `right` converts to the dtype of `left`, where the product's kernel converts them:
    the weights of a few rows. None elsewhere.
    """
    chip = providers.current_target()
    is_short = V.graph.sizevars.statically_known_leq(left.get_size()[-2], chip.fractal_rows)
    if not is_short or not is_converted_inside(replace(work, converted=_CONVERTED.itemsize), chip, FILLED):
        return None
    loader = right.make_loader()
    taken = _Address(converts_to=left.get_dtype())
    if not _is_readable(loader, right.get_size(), taken) or not taken.is_converted:
        return None

    def load(index: Sequence[sympy.Expr]) -> Any:
        with V.set_ops_handler(_WithoutConversion(V.get_ops_handler())):
            return loader(index)

    return load


class _WithoutConversion(WrapperHandler):
    """Leaves out conversions of what is loaded."""

    def to_dtype(self, value: Any, *_: Any, **_options: Any) -> Any:
        return value


def _is_readable(loader: _Loader, size: Sequence[sympy.Expr], taken: _Address | None = None) -> bool:
    """Whether `loader` does nothing but load, from matrices that lie along their rows or columns, without steps, or
    what `taken` takes down beside.
    """
    indices = [sympy.Symbol(f"i{place}", integer=True, nonnegative=True) for place in range(len(size))]
    taken = taken or _Address()
    with V.set_ops_handler(taken), patch.object(ir.FlexibleLayout, "allow_indexing", True):
        try:
            loader(indices)
        except _ComputesError:
            return False
    (index,) = taken.loads
    address = affine(V.graph.sizevars.simplify_with_ranges(index, dict(zip(indices, size, strict=True))), indices[-2:])
    strides = [address.strides.get(index, sympy.S.Zero) for index in indices[-2:]]
    known = V.graph.sizevars.statically_known_equals
    return (
        not address.nonlinear
        and any(known(stride, 1) for stride in strides)
        and not any(known(stride, 0) for stride in strides)
    )


class _ComputesError(Exception):
    """A function does more than load an element."""


class _Address(DefaultHandler):
    """Takes down at which index a function loads an element; it may convert one of int8 to `converts_to`."""

    def __init__(self, converts_to: torch.dtype | None = None) -> None:
        self.converts_to, self.is_converted = converts_to, False
        self.dtypes: list[torch.dtype] = []
        self.loads: list[sympy.Expr] = []

    def load(self, name: str, index: sympy.Expr) -> None:
        if self.loads:
            raise _ComputesError
        self.dtypes.append(V.graph.get_dtype(name))
        self.loads.append(sympy.sympify(index))

    def to_dtype(self, value: None, dtype: torch.dtype, *_: Any, **_options: Any) -> None:
        is_first = not self.is_converted and self.dtypes == [_CONVERTED]
        if not is_first or dtype != self.converts_to:
            raise _ComputesError
        self.is_converted = True

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _ComputesError


def _from_memory(operand: ir.IRNode) -> _Loader:
    """Loads elements of `operand`, which is in memory; Inductor's own loader may compute them again instead."""
    name, address = operand.get_name(), operand.get_layout().make_indexer()
    return lambda index: ops.load(name, address(index))

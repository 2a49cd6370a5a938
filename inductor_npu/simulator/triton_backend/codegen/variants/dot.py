"""tl.dot: mathlib's product of packed operands (`pack.py`), added to a row-major tile in scratch."""

from __future__ import annotations

import math
from dataclasses import replace

from ...mathlib import MatmulFunction, PackedProduct, matmul
from ...ttir.ir import Op, Value, splat_number
from ..analysis.tile_extents import Extents
from ..emit.context import CodegenContext
from ..forms.scratch import Buffer, row_major
from ..forms.types import element_bytes, element_of, shape_of
from ..forms.value import Val
from ..nests.materialise import keep
from ..planning.steps import KeptRoot
from .branches import when
from .pack import extent
from .single_row import emit_single_row


def emit_dot(context: CodegenContext, op: Op) -> None:
    """C[.., M, N] = A[.., M, K] @ B[.., K, N] + accumulator. `inputPrecision` is always that of the operands (ieee)."""

    a, b, accumulator = op.operands
    product: PackedProduct = op.attrs["product"]
    extents: Extents = op.attrs["extents"]
    *batch, m, n = shape_of(op.result.type)
    left, right = (_packed(context, operand) for operand in (a, b))
    zero = splat_number(accumulator) == 0
    result = _accumulator(context, op, accumulator, zero)
    sizes = [
        extent(context, extents.rows, m),
        extent(context, extents.columns, n),
        extent(context, extents.depth, product.k, either=True),
    ]
    product = replace(product, a_in_panels=len(left.shape) > len(batch) + 2)
    function = matmul(context.math.library, product, accumulate=not zero, partial=sizes[0].constant is None)
    context.work += math.prod(batch) * m * n * product.k // 16 * 8 ** min(context.loop_depth, 2)
    places = [context.memory.scratch_pointer(buffer.offset) for buffer in (result, left, right)]
    pack, one = b.owner, context.b.constant("i64", 1)
    if pack is not None and pack.attrs.get("may_be_left_out"):
        with when(context, context.b.compare("icmp eq", sizes[0], one)):
            emit_single_row(context, pack, left, result, sizes[1], accumulate=not zero)
        with when(context, context.b.compare("icmp sgt", sizes[0], one)):
            _call(context, function, product, math.prod(batch), places, sizes)
    else:
        _call(context, function, product, math.prod(batch), places, sizes)
    context.places[op.result] = result


def _call(
    context: CodegenContext,
    function: MatmulFunction,
    product: PackedProduct,
    count: int,
    places: list[Val],
    sizes: list[Val],
) -> None:
    """Calls `function` for `count` products, one behind the other in memory. places: C, A, B."""
    builder = context.b
    loop = builder.open_loop(0, count, 1) if count > 1 else None
    if loop is not None:
        c_bytes = product.m * product.n * element_bytes(product.accumulator)
        tile_bytes = (c_bytes, product.a_bytes, product.b_bytes)
        places = [_moved(context, pointer, loop.iv, size) for pointer, size in zip(places, tile_bytes)]
    builder.line(f"call void @{function.symbol}({', '.join(map(str, (*places, *sizes)))})")
    if loop is not None:
        builder.close_loop(loop)


def _packed(context: CodegenContext, operand: Value) -> Buffer:
    home = context.places[operand]
    assert isinstance(home, Buffer), "operands are packed before the product"
    return home


def _moved(context: CodegenContext, pointer: Val, index: Val, size: int) -> Val:
    """`pointer` moved by `index` times `size` bytes."""
    offset = context.scalars.multiply(index, context.b.constant("i64", size))
    return context.b.pure("ptr", 0, f"getelementptr i8, {pointer}, {offset}", pointer, offset)


def _accumulator(context: CodegenContext, op: Op, accumulator: Value, zero: bool) -> Buffer:
    """Where to accumulate: in place where nobody else needs the old value, as in a loop over K."""
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    home = context.places.get(accumulator)
    if (
        isinstance(home, Buffer)
        and home.strides == row_major(shape)
        and context.use_counts[accumulator] == 1
        and accumulator.owner is None
    ):
        return home
    buffer = context.scratch.allocate(shape, element, row_major(shape))
    if not zero:
        keep(context, [KeptRoot(accumulator, shape, buffer)])
    return buffer

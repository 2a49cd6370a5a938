"""tl.dot: operands in scratch, row-major, and mathlib's blocked product."""

from __future__ import annotations

import math

from ...mathlib import HostVectors, UnknownFunction, matmul
from ...ttir.ir import Op, Value, splat_number
from ..emit.context import CodegenContext
from ..errors import UnsupportedOperation
from ..forms.scratch import Buffer, row_major
from ..forms.types import element_bytes, element_of, shape_of
from ..nests.materialise import keep, materialised
from ..planning.steps import KeptRoot


def emit_dot(context: CodegenContext, op: Op) -> None:
    """C[.., M, N] = A[.., M, K] @ B[.., K, N] + accumulator. `inputPrecision` is always that of the operands (ieee)."""

    a, b, accumulator = op.operands
    *batch, m, k = shape_of(a.type)
    n = shape_of(b.type)[-1]
    left, right = materialised(context, a), materialised(context, b)
    zero = splat_number(accumulator) == 0
    result = _accumulator(context, op, accumulator, zero)
    operands = (element_of(a.type), element_of(b.type))
    try:
        function = matmul(
            context.math.library,
            (m, n, k),
            operands,
            result.element,
            HostVectors(context.options.vector_bits, context.options.registers),
            accumulate=not zero,
        )
    except UnknownFunction as error:
        raise UnsupportedOperation(op, str(error)) from error
    memory, builder = context.memory, context.b
    scratch = (
        memory.scratch_pointer(context.scratch.reserve(function.scratch_bytes)).text
        if function.scratch_bytes
        else "null"
    )
    count = math.prod(batch)
    context.work += count * m * n * k // 16
    pointers = [memory.scratch_pointer(buffer.offset) for buffer in (result, left, right)]
    if count == 1:
        builder.line(f"call void @{function.symbol}({', '.join(map(str, pointers))}, ptr {scratch})")
    else:
        loop = builder.open_loop(0, count, 1)
        sizes = [
            m * n * element_bytes(result.element),
            m * k * element_bytes(operands[0]),
            k * n * element_bytes(operands[1]),
        ]
        places = []
        for pointer, size in zip(pointers, sizes):
            offset = context.scalars.multiply(loop.iv, builder.constant("i64", size))
            places.append(builder.pure("ptr", 0, f"getelementptr i8, {pointer}, {offset}", pointer, offset))
        builder.line(f"call void @{function.symbol}({', '.join(map(str, places))}, ptr {scratch})")
        builder.close_loop(loop)
    context.places[op.result] = result


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

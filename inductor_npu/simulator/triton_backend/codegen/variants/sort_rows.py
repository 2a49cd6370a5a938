"""Sorts of rows, by a function of the runtime."""

from __future__ import annotations

import math

from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..evaluation.evaluator import scalar_of
from ..forms.scratch import held
from ..forms.types import element_bytes
from ..nests.materialise import materialised

SORT_WORK = 16  # what sorting an element takes, in elements that are computed


def emit_sort(context: CodegenContext, op: Op) -> None:
    """Rows in order, by the runtime's function; the axis is the first or the last one of the tile."""
    b, sort = context.b, op.attrs["sort"]
    tiles = [materialised(context, value) for value in op.operands[:2]]
    results = [context.scratch.allocate(tile.shape, tile.element, tile.strides) for tile in tiles]
    shape = tiles[0].shape
    extent = shape[sort.axis]
    rows, stride = math.prod(shape) // extent, tiles[0].strides[sort.axis]
    if sort.length is None:
        length = context.scalars.widened(scalar_of(context, op.operands[2]))
    else:
        length = b.constant("i64", sort.length)
    context.work += math.prod(shape) * SORT_WORK
    addresses = ", ".join(str(context.memory.scratch_pointer(tile.offset)) for tile in (*tiles, *results))
    bytes_ = [element_bytes(held(tile.element)) for tile in tiles]
    b.declare("declare void @npu_sort_rows(ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i32, i32, i32, i32)")
    b.line(
        f"call void @npu_sort_rows({addresses}, i64 {rows}, {length}, i64 {extent}, "
        f"i64 {extent if stride == 1 else 1}, i64 {stride}, i32 {ord(sort.kind)}, i32 {bytes_[0]}, i32 {bytes_[1]}, "
        f"i32 {int(sort.descending)})"
    )
    context.places.update(zip(op.results, results, strict=True))

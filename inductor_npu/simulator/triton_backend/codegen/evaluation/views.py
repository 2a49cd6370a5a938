"""Operations that only move elements: each maps the coordinates of its result to those of its operand."""

from __future__ import annotations

from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..forms.coordinate import Coordinate, Coordinates
from ..forms.lane import Index, Lane, Uniform, Vector
from ..forms.types import shape_of
from .coordinate_maps import CoordinateMaps


def source_coordinates(maps: CoordinateMaps, op: Op, result: int, coordinates: Coordinates) -> Coordinates:
    """Where in its operand the element at `coordinates` of result number `result` of a view is."""
    source_shape = shape_of(op.operands[0].type)
    if op.name == "tt.broadcast":
        return tuple(maps.zero if extent == 1 else c for c, extent in zip(coordinates, source_shape))
    if op.name == "tt.expand_dims":
        axis = op.attrs["axis"]
        return coordinates[:axis] + coordinates[axis + 1 :]
    if op.name == "tt.trans":
        order = op.attrs["order"]
        source: list[Coordinate] = [maps.zero] * len(order)
        for here, there in enumerate(order):
            source[there] = coordinates[here]
        return tuple(source)
    if op.name == "tt.split":
        return (*coordinates, maps.constant(result))
    return maps.reshape(coordinates, shape_of(op.result.type), source_shape)


def joined(context: CodegenContext, which: Lane, low: Lane, high: Lane, width: int) -> Lane:
    """`low` in the lanes where `which` is 0, `high` where it is 1."""
    zero = Index(context.b.constant("i64", 0), 0, "i64")
    is_high = context.integers.compare("ne", which, zero, width)
    (x, y), form = context.elementwise.values((high, low), width)
    if isinstance(is_high, Uniform):
        return form(context.b.select(is_high.val, x, y))
    x, y = context.lanes.vector(high, width), context.lanes.vector(low, width)
    return Vector(context.b.select(context.lanes.vector(is_high, width), x, y))

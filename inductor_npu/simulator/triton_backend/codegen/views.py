"""Operations that only move elements: each maps the coordinates of its result to those of its operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ttir.ir import Op
from .coordinates import Coordinate, Coordinates
from .lanes import Index, Lane, Uniform, Vector
from .types import shape_of

if TYPE_CHECKING:
    from .frame import Frame

VIEWS = frozenset(
    {"tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.descriptor_load"}
)


def view(frame: Frame, op: Op, result: int, coordinates: Coordinates) -> Lane:
    """The lanes of result number `result` of a view at `coordinates`."""
    if op.name == "tt.join":
        return _join(frame, op, coordinates)
    (source,) = op.operands
    return frame.evaluate(source, source_coordinates(frame, op, result, coordinates))


def source_coordinates(frame: Frame, op: Op, result: int, coordinates: Coordinates) -> Coordinates:
    maps = frame.maps
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


def _join(frame: Frame, op: Op, coordinates: Coordinates) -> Lane:
    """The last coordinate chooses the operand."""
    which = frame.maps.value(coordinates[-1])
    if isinstance(which, Index) and which.step == 0 and which.first.constant is not None:
        return frame.evaluate(op.operands[which.first.constant], coordinates[:-1])
    low, high = (frame.evaluate(o, coordinates[:-1]) for o in op.operands)
    elementwise = frame.kernel.elementwise
    zero = Index(frame.b.constant("i64", 0), 0, "i64")
    chosen = elementwise.integers.compare("ne", which, zero, frame.width)
    (x, y), form = elementwise.values((high, low), frame.width)
    if isinstance(chosen, Uniform):
        return form(frame.b.select(chosen.val, x, y))
    lanes = elementwise.lanes
    x, y = lanes.vector(high, frame.width), lanes.vector(low, frame.width)
    return Vector(frame.b.select(lanes.vector(chosen, frame.width), x, y))


def source_axes(op: Op, axes: tuple[int | None, ...]) -> tuple[int | None, ...] | None:
    """Which axis of the operand each loop axis runs along, given that of the result; None where that is not simple."""
    source_shape = shape_of(op.operands[0].type)
    if op.name == "tt.broadcast":
        return tuple(None if a is None or source_shape[a] == 1 else a for a in axes)
    if op.name == "tt.expand_dims":
        inserted = op.attrs["axis"]
        return tuple(None if a is None or a == inserted else a - (a > inserted) for a in axes)
    if op.name == "tt.reduce":
        return tuple(None if a is None else a + (a >= op.attrs["axis"]) for a in axes)
    if op.name == "tt.trans":
        order = op.attrs["order"]
        return tuple(None if a is None else order[a] for a in axes)
    if op.name in ("tt.split", "tt.join"):
        return tuple(None if a is None or a >= len(source_shape) else a for a in axes)
    if op.name == "tt.reshape":
        back = _reshaped_axes(shape_of(op.result.type), source_shape)
        return tuple(None if a is None else back.get(a) for a in axes) if back else None
    return None


def _reshaped_axes(shape: tuple[int, ...], source: tuple[int, ...]) -> dict[int, int]:
    """The axis of `source` that each axis of its reshape runs along. Axes of one element do not count; those that are
    equal from the front, or from the back, are each other's. Where the rest is cut otherwise, neighbours along its last
    axis are neighbours in both, but at every so manieth multiple of the shorter one.
    """
    here = [axis for axis, extent in enumerate(shape) if extent > 1]
    there = [axis for axis, extent in enumerate(source) if extent > 1]
    back: dict[int, int] = {}
    while here and there and shape[here[0]] == source[there[0]]:
        back[here.pop(0)] = there.pop(0)
    while here and there and shape[here[-1]] == source[there[-1]]:
        back[here.pop()] = there.pop()
    if here and there:
        shorter, longer = sorted((shape[here[-1]], source[there[-1]]))
        if longer % shorter == 0:
            back[here[-1]] = there[-1]
    return back


__all__ = ["VIEWS", "source_axes", "source_coordinates", "view"]

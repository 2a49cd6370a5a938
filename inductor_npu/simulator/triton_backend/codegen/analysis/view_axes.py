"""Maps an axis of a view to the axis of its operand."""

from __future__ import annotations

from ...ttir.ir import Op
from ..forms.types import shape_of


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

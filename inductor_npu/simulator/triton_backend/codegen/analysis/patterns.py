"""The structure of a tile: its conditions and its axes."""

from __future__ import annotations

from ...ttir.ir import Value
from ..forms.types import shape_of


def conjuncts(condition: Value) -> list[Value]:
    """What has to hold for `condition` to hold."""
    op = condition.owner
    return [condition] if op is None or op.name != "arith.andi" else [t for o in op.operands for t in conjuncts(o)]


def unbroadcast(value: Value) -> Value:
    """What `value` repeats, or itself."""
    op = value.owner
    return op.operands[0] if op is not None and op.name == "tt.broadcast" else value


def longer_axes(value: Value) -> list[int]:
    """The axes of more than one element."""
    return [axis for axis, extent in enumerate(shape_of(value.type)) if extent > 1]


def peeled(value: Value, *conversions: str) -> Value:
    """What `value` is another shape, or one of `conversions`, of."""
    while value.owner is not None and value.owner.name in ("tt.expand_dims", "tt.reshape", *conversions):
        value = value.owner.operands[0]
    return value

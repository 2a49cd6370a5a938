"""The structure of a tile: its conditions, its axes, what its numbers count."""

from __future__ import annotations

from collections.abc import Mapping

from ...ttir.ir import Op, Value, splat_number
from ..forms.types import shape_of

EXACT_IN_FLOAT32 = 1 << 24  # whole numbers up to here are different ones in float32


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


def one_axis(value: Value) -> Value | None:
    """`value`, which has one axis of more than one element, without the others, if its numbers count up by 1."""
    value = peeled(value)
    return value if len(shape_of(value.type)) == 1 and _counts_up(value) else None


def _counts_up(value: Value) -> bool:
    op = value.owner
    if op is None or op.name == "tt.make_range":
        return op is not None
    if op.name != "arith.addi":
        return False
    left, right = op.operands
    return (_counts_up(left) and _is_splat(right)) or (_counts_up(right) and _is_splat(left))


def _is_splat(value: Value) -> bool:
    return value.owner is not None and (value.owner.name == "tt.splat" or splat_number(value) is not None)


def counted_by_loop(value: Value, loops: Mapping[Value, Op]) -> Op | None:
    """The loop of which `value`, one axis, is the counter and the numbers from 0 on added to it."""
    op = value.owner
    if op is None or op.name != "arith.addi":
        return None
    for splat, numbers in (op.operands, op.operands[::-1]):
        counted, repeated = numbers.owner, splat.owner
        if counted is None or counted.name != "tt.make_range" or counted.attrs["start"] != 0:
            continue
        if repeated is not None and repeated.name == "tt.splat" and repeated.operands[0] in loops:
            return loops[repeated.operands[0]]
    return None

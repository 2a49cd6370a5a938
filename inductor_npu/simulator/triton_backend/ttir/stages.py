"""The second try of a kernel that passes tiles from dot to dot in a loop, as attention does.

Between two dots the vector cores compute an operand of the second from what the first made. If that stage does not fit,
the compiler lets it run in two halves of its rows. It can do so only where the stage is made of the first dot's result
and of what the loop carries or finds before it: with a tile that it loads, or an index that changes from turn to turn,
the compiler does not.
"""

from __future__ import annotations

from dataclasses import replace

from .copying import copy_region
from .cube_values import CubeValues
from .forms import DOTS, Forms, is_mask
from .ir import Function, Op, TensorType, Value

_PARTS = 2


def with_stages_in_halves(kernel: Function, forms: Forms, cube: CubeValues) -> Function | None:
    """A copy of `kernel` in which the tiles of each such stage have half of their rows; None where there is none."""
    stage: set[Value] = set()
    for loop in kernel.body.walk():
        if loop.name == "scf.for" and any(op.name in DOTS for op in loop.regions[0].ops):
            stage |= _stage(loop, forms, cube)
    if not stage or any(_shape(value)[0] % _PARTS for value in stage):
        return None
    values: dict[Value, Value] = {}
    body = copy_region(kernel.body, values)
    for value in stage:
        rows, *rest = _shape(value)
        copy = values[value]
        assert isinstance(copy.type, TensorType), "a tile"
        copy.type = replace(copy.type, shape=(rows // _PARTS, *rest))
    return replace(kernel, body=body)


def _stage(loop: Op, forms: Forms, cube: CubeValues) -> set[Value]:
    """The tiles of rows from which computed operands of the loop's dots are made."""
    body = loop.regions[0]
    inside = {value for op in body.walk() for value in op.results}
    waiting = [
        value
        for op in body.ops
        if op.name in DOTS
        for value in op.operands[:2]
        if value in inside and value not in cube.elsewhere
    ]
    found: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in found or len(_shape(value)) < 2:
            continue
        if value not in inside:
            if value in forms.needed and not forms.is_uniform(value):  # an index made before the loop, then in it
                found.add(value)
            continue
        if value.owner is None or value.owner.name in ("tt.load", "tt.trans") or _changes(value, inside, forms):
            return set()
        found.add(value)
        if value.owner.name not in DOTS:
            waiting += value.owner.operands
    return found


def _changes(value: Value, inside: set[Value], forms: Forms) -> bool:
    """Whether it is an index, made into a tile of integers, that the loop makes anew in each turn."""
    is_index = value in forms.index and value in forms.needed and not forms.is_uniform(value)
    return is_index and value in inside and not is_mask(value.type)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()

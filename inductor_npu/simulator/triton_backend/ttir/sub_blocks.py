"""How the two vector cores beside a cube core share the tiles of a kernel with dots: each takes half of the rows.

The compiler cuts all tiles along one axis: the first, or the last where a reduction runs along the first. It does so
only if that axis is even everywhere, and if nothing that it would have to cut is made outside of a loop and read in it
(what a loop carries is no obstacle). Otherwise both cores do everything, and one of them stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....target import NpuTarget
from .copying import copy_region
from .cube_values import CubeValues
from .forms import DOTS, LOOPS, Forms
from .ir import Function, Op, TensorType, Value


def share_of_one_core(kernel: Function, target: NpuTarget, forms: Forms, cube: CubeValues) -> Function | None:
    """A copy of `kernel` with the tiles that one vector core has; None where each has all of them."""
    if not cube.dots or target.vector_cores_per_cube < 2 or cube.read_twice:
        return None
    axis = _axis(kernel, forms, cube)
    if axis is None:
        return None
    lines = _lines_along(kernel, axis)
    tiles = list(_tiles(kernel, forms, cube))
    if not tiles or not all(_is_divisible(value, axis, lines, target) for value in tiles):
        return None
    if _is_read_in_a_loop(kernel, forms, cube, axis, lines):
        return None
    return _cut(kernel, axis, lines, target.vector_cores_per_cube)


def _tiles(kernel: Function, forms: Forms, cube: CubeValues) -> Iterator[Value]:
    """What vector cores have as tiles."""
    for op in kernel.body.walk():
        for value in op.results:
            if forms.is_tile(value) and not forms.is_uniform(value) and value not in cube.elsewhere:
                yield value


def _axis(kernel: Function, forms: Forms, cube: CubeValues) -> int | None:
    """0, or -1 where rows are reduced to one; None where both are."""
    reduced = set()
    for op in kernel.body.walk():
        if op.name == "tt.reduce":
            for source in op.operands:
                if forms.is_tile(source) and len(_shape(source)) > 1:
                    axis = int(op.attrs["axis"])
                    reduced.add(0 if axis == 0 else -1 if axis == len(_shape(source)) - 1 else 1)
    return 0 if 0 not in reduced else -1 if -1 not in reduced else None


def _lines_along(kernel: Function, axis: int) -> set[Value]:
    """The tiles of one axis whose elements belong to different rows (columns, if `axis` is -1) of the others."""
    found: set[Value] = set()
    groups = list(_groups_of_lines(kernel))
    for op in kernel.body.walk():
        if op.name not in ("tt.expand_dims", "tt.reduce") or (int(op.attrs["axis"]) == 1) != (axis == 0):
            continue
        if op.name == "tt.expand_dims" and len(_shape(op.operands[0])) == 1:
            found.add(op.operands[0])
        elif op.name == "tt.reduce" and len(_shape(op.operands[0])) == 2:
            found |= set(op.results)
    while True:
        more = {value for group in groups if found & group for value in group} - found
        if not more:
            return found
        found |= more


def _groups_of_lines(kernel: Function) -> Iterator[set[Value]]:
    """Tiles of one axis that belong together: operands and results of an operation, what a loop carries."""
    for op in kernel.body.walk():
        if op.name in LOOPS:
            first = 3 if op.name == "scf.for" else 0
            ends = op.regions[-1].ops[-1].operands
            arguments = op.regions[-1].arguments[len(op.regions[-1].arguments) - len(op.results) :]
            for carried in zip(op.operands[first:], arguments, ends, op.results, strict=False):
                if len(_shape(carried[0])) == 1:
                    yield set(carried)
        elif not op.regions:
            values = {value for value in (*op.operands, *op.results) if len(_shape(value)) == 1}
            shapes = {_shape(value) for value in values}
            if len(shapes) == 1 and any(len(_shape(value)) == 1 for value in op.results):
                yield values


def _runs_along(value: Value, axis: int, lines: set[Value]) -> bool:
    shape = _shape(value)
    return value in lines if len(shape) == 1 else len(shape) > 1 and shape[axis] > 1


def _is_divisible(value: Value, axis: int, lines: set[Value], target: NpuTarget) -> bool:
    return not _runs_along(value, axis, lines) or _shape(value)[axis] % target.vector_cores_per_cube == 0


def _is_read_in_a_loop(kernel: Function, forms: Forms, cube: CubeValues, axis: int, lines: set[Value]) -> bool:
    """Whether a loop reads a tile of data that runs along `axis` from outside."""
    for op in kernel.body.walk():
        if op.name not in LOOPS:
            continue
        defined = _defined_inside(op)
        for nested in (nested for region in op.regions for nested in region.walk()):
            for value in _read_tiles(nested, forms):
                is_own = value in defined or value in cube.elsewhere or value in forms.index
                if not is_own and _runs_along(value, axis, lines):
                    return True
    return False


def _defined_inside(loop: Op) -> set[Value]:
    """What each turn of a loop makes anew: not what it loads from an address that stays the same."""
    inner = [nested for region in loop.regions for nested in region.walk()]
    defined = {value for nested in inner for value in nested.results}
    for nested in (loop, *inner):
        defined |= {value for region in nested.regions for value in region.arguments}
    loads = [nested for nested in inner if nested.name == "tt.load"]
    return defined - {load.result for load in loads if not defined & set(load.operands)}


def _read_tiles(op: Op, forms: Forms) -> list[Value]:
    """What the vector cores read; a dot's operand goes to the cube core as a whole."""
    return [] if op.name in DOTS else [value for value in forms.read(op) if forms.is_tile(value)]


def _cut(kernel: Function, axis: int, lines: set[Value], parts: int) -> Function:
    values: dict[Value, Value] = {}
    body = copy_region(kernel.body, values)
    for value, copy in values.items():
        shape = list(_shape(value))
        if _runs_along(value, axis, lines) and shape[axis] % parts == 0:
            shape[axis] //= parts
            assert isinstance(copy.type, TensorType), "only tiles have a shape"
            copy.type = replace(copy.type, shape=tuple(shape))
    return replace(kernel, body=body)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()

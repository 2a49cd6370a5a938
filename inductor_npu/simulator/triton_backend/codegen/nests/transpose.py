"""Tiles whose contiguous axis differs from the nest's: read along their own axis, transposed in registers, kept in
scratch.

A nest whose lanes run along one axis would have to gather elements that are contiguous along another. Instead, blocks
of n by n elements are read as n vectors, transposed by log2(n) rounds of shuffles, and written so that the nest reads
whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ...ttir.ir import Value
from ..analysis.operations import is_tensor, is_virtual, moves
from ..analysis.view_axes import source_axes
from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinate
from ..forms.lane import Index, Vector
from ..forms.scratch import Buffer, held, strides_with_innermost
from ..forms.types import element_bytes, element_of, shape_of
from ..forms.value import Val
from ..planning.steps import Group

LARGEST_SIDE = 16  # as many vectors as there are registers for, twice


def transpose_crosswise_tiles(context: CodegenContext, group: Group) -> None:
    """Keeps in scratch, transposed, what `group` loads or has kept, if neighbours in memory lie along another axis than
    its lanes.
    """
    for value, read_axis, write_axis in _crosswise_tiles(context, group):
        _keep_transposed(context, value, read_axis, write_axis)


def _crosswise_tiles(context: CodegenContext, group: Group) -> list[tuple[Value, int, int]]:
    """Tiles in memory, each with its axis that is contiguous there and its axis that fills the group's lanes."""
    found: dict[Value, tuple[Value, int, int]] = {}
    identity: tuple[int | None, ...] = tuple(range(len(group.shape)))
    stack = [(operand, identity) for root in group.roots for operand in root.operands]
    seen: set[tuple[Value, tuple[int | None, ...]]] = set()
    while stack:
        value, axes = stack.pop()
        if (value, axes) in seen or not is_tensor(value):
            continue
        seen.add((value, axes))
        place, op = context.places.get(value), value.owner
        if isinstance(place, Buffer) or (place is None and op is not None and op.name == "tt.load"):
            written = axes[group.vector_axis] if axes else None
            read = None if written is None else _contiguous_axis(context, value, written)
            if written is not None and read is not None:
                found[value] = (value, read, written)
        elif place is None and op is not None and is_virtual(op):
            for operand in op.operands:
                mapped = source_axes(op, axes) if moves(op) else axes
                if mapped is not None:
                    stack.append((operand, mapped))
    return list(found.values())


def _contiguous_axis(context: CodegenContext, tile: Value, lanes_axis: int) -> int | None:
    """The axis along which a tile that would be gathered along `lanes_axis` is contiguous instead."""
    shape, side = shape_of(tile.type), _side(context, element_of(tile.type))
    strides = _memory_strides(context, tile)
    if not strides or strides[lanes_axis] in (0, 1, -1) or shape[lanes_axis] < side:
        return None
    candidates = [a for a, extent in enumerate(shape) if a != lanes_axis and extent >= side and strides[a] == 1]
    return candidates[0] if candidates else None


def _memory_strides(context: CodegenContext, tile: Value) -> Sequence[int | None]:
    """Between neighbours along each axis, in elements; empty where all elements have one address."""
    place = context.places.get(tile)
    if isinstance(place, Buffer):
        return place.strides
    if tile.owner is None or not is_tensor(tile.owner.operands[0]):
        return ()
    pointer = tile.owner.operands[0]
    return [context.facts.strides.along(pointer, axis) for axis in range(len(shape_of(tile.type)))]


def _side(context: CodegenContext, element: str) -> int:
    """Rows and columns of a block: a register of the element, or of 32-bit numbers if it is narrower."""
    return min(LARGEST_SIDE, context.options.vector_bits // 8 // max(element_bytes(held(element)), 4))


def _keep_transposed(context: CodegenContext, value: Value, read_axis: int, write_axis: int) -> None:
    """Loads `value` in vectors along `read_axis` into scratch in which neighbours along `write_axis` are adjacent."""
    shape, element = shape_of(value.type), element_of(value.type)
    side = _side(context, element)
    buffer = context.scratch.allocate(shape, element, strides_with_innermost(shape, write_axis))
    evaluator, lanes = ChunkEvaluator(context, side), context.lanes
    with ExitStack() as loops:
        corner: list[Val] = []
        for axis, extent in enumerate(shape):
            step = side if axis in (read_axis, write_axis) else 1
            corner.append(_loop(context, loops, extent, step))

        def line(along: int, across: int, number: int) -> tuple[Coordinate, ...]:
            """Vector `number` of the block that runs along one of the two axes."""
            place = [Index(first, 0, "i64") for first in corner]
            place[along] = Index(corner[along], 1, "i64")
            place[across] = Index(context.scalars.add(corner[across], context.b.constant("i64", number)), 0, "i64")
            return tuple(place)

        rows = []
        for k in range(side):
            row = lanes.vector(evaluator.evaluate(value, line(read_axis, write_axis, k)), side)
            rows.append(context.b.cast("zext", row, "i8") if element == "i1" else row)
        for k, column in enumerate(transposed(context, rows)):
            address = evaluator.address(buffer, line(write_axis, read_axis, k))
            context.memory.store(address, Vector(column), None, held(element), side)
    context.places[value] = buffer


def _loop(context: CodegenContext, loops: ExitStack, extent: int, step: int) -> Val:
    """The position in a loop that is closed with `loops`; a constant where there is one step only."""
    if extent <= step:
        return context.b.constant("i64", 0)
    loop = context.b.open_loop(0, extent, step)
    loops.callback(context.b.close_loop, loop)
    return loop.iv


def transposed(context: CodegenContext, rows: Sequence[Val]) -> list[Val]:
    """The columns of a square block. Round d swaps the off-diagonal quarters of all blocks of 2 d by 2 d."""
    block, side = list(rows), len(rows)
    distance = 1
    while distance < side:
        for i in range(side):
            if i & distance:
                continue
            a, b = block[i], block[i + distance]
            low = [side + j - distance if j & distance else j for j in range(side)]
            high = [side + j if j & distance else j + distance for j in range(side)]
            block[i], block[i + distance] = context.b.shuffle(a, low, b), context.b.shuffle(a, high, b)
        distance *= 2
    return block

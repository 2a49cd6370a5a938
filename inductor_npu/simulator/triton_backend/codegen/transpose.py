"""Tiles that lie across a nest: read along the axis that is contiguous in memory, turned in registers, kept in scratch.

A nest whose lanes run along one axis would have to gather what lies side by side along another. Blocks of n by n
elements are read as n vectors instead, transposed by log2(n) rounds of shuffles, and written so that the nest reads
whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..ttir.ir import Value
from .builder import Val
from .coordinates import Coordinate
from .frame import Frame, strides_with_innermost
from .lanes import Index, Vector
from .memory import Buffer, held
from .plan import Group, is_tensor, is_virtual, moves
from .types import element_bytes, element_of, shape_of
from .views import source_axes

if TYPE_CHECKING:
    from .kernel import KernelGenerator

LARGEST_SIDE = 16  # as many vectors as there are registers for, twice


def turn_crosswise_tiles(kernel: KernelGenerator, group: Group) -> None:
    """Keeps in scratch, transposed, what `group` loads or has kept, if neighbours in memory lie along another axis than
    its lanes.
    """
    for value, read_axis, write_axis in _crosswise_tiles(kernel, group):
        _keep_transposed(kernel, value, read_axis, write_axis)


def _crosswise_tiles(kernel: KernelGenerator, group: Group) -> list[tuple[Value, int, int]]:
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
        place, op = kernel.env.get(value), value.owner
        if isinstance(place, Buffer) or (place is None and op is not None and op.name == "tt.load"):
            written = axes[group.vector_axis] if axes else None
            read = None if written is None else _contiguous_axis(kernel, value, written)
            if read is not None:
                found[value] = (value, read, written)
        elif place is None and op is not None and is_virtual(op):
            for operand in op.operands:
                mapped = source_axes(op, axes) if moves(op) else axes
                if mapped is not None:
                    stack.append((operand, mapped))
    return list(found.values())


def _contiguous_axis(kernel: KernelGenerator, tile: Value, lanes_axis: int) -> int | None:
    """The axis along which a tile that would be gathered along `lanes_axis` is contiguous instead."""
    shape, side = shape_of(tile.type), _side(kernel, element_of(tile.type))
    strides = _memory_strides(kernel, tile)
    if not strides or strides[lanes_axis] in (0, 1, -1) or shape[lanes_axis] < side:
        return None
    candidates = [a for a, extent in enumerate(shape) if a != lanes_axis and extent >= side and strides[a] == 1]
    return candidates[0] if candidates else None


def _memory_strides(kernel: KernelGenerator, tile: Value) -> Sequence[int | None]:
    """Between neighbours along each axis, in elements; empty where all elements have one address."""
    place = kernel.env.get(tile)
    if isinstance(place, Buffer):
        return place.strides
    pointer = tile.owner.operands[0]
    if not is_tensor(pointer):
        return ()
    return [kernel.strides.along(pointer, axis) for axis in range(len(shape_of(tile.type)))]


def _side(kernel: KernelGenerator, element: str) -> int:
    """Rows and columns of a block: a register of the element, or of 32-bit numbers if it is narrower."""
    return min(LARGEST_SIDE, kernel.options.vector_bits // 8 // max(element_bytes(held(element)), 4))


def _keep_transposed(kernel: KernelGenerator, value: Value, read_axis: int, write_axis: int) -> None:
    """Loads `value` in vectors along `read_axis` into scratch in which neighbours along `write_axis` are adjacent."""
    shape, element = shape_of(value.type), element_of(value.type)
    side = _side(kernel, element)
    buffer = kernel.allocate(shape, element, strides_with_innermost(shape, write_axis))
    frame, lanes = Frame(kernel, side), kernel.elementwise.lanes
    with ExitStack() as loops:
        corner: list[Val] = []
        for axis, extent in enumerate(shape):
            step = side if axis in (read_axis, write_axis) else 1
            corner.append(_loop(kernel, loops, extent, step))

        def line(along: int, across: int, number: int) -> tuple[Coordinate, ...]:
            """Vector `number` of the block that runs along one of the two axes."""
            place = [Index(first, 0, "i64") for first in corner]
            place[along] = Index(corner[along], 1, "i64")
            place[across] = Index(lanes.add(corner[across], kernel.b.constant("i64", number)), 0, "i64")
            return tuple(place)

        rows = []
        for k in range(side):
            row = lanes.vector(frame.evaluate(value, line(read_axis, write_axis, k)), side)
            rows.append(kernel.b.cast("zext", row, "i8") if element == "i1" else row)
        for k, column in enumerate(transposed(kernel, rows)):
            address = frame.address(buffer, line(write_axis, read_axis, k))
            kernel.memory.store(address, Vector(column), None, held(element), side)
    kernel.env[value] = buffer


def _loop(kernel: KernelGenerator, loops: ExitStack, extent: int, step: int) -> Val:
    """The position in a loop that is closed with `loops`; a constant where there is one step only."""
    if extent <= step:
        return kernel.b.constant("i64", 0)
    loop = kernel.b.open_loop(0, extent, step)
    loops.callback(kernel.b.close_loop, loop)
    return loop.iv


def transposed(kernel: KernelGenerator, rows: Sequence[Val]) -> list[Val]:
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
            block[i], block[i + distance] = kernel.b.shuffle(a, low, b), kernel.b.shuffle(a, high, b)
        distance *= 2
    return block

"""The values of tiles at a chunk of lanes: computed where they are needed, or read from scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ttir.ir import Op, Value
from .combine import Combiner
from .coordinates import Coordinate, CoordinateMaps, Coordinates
from .lanes import Index, Lane, Vector
from .memory import Buffer
from .picking import pick
from .types import BITS, element_of, shape_of
from .views import VIEWS, view

if TYPE_CHECKING:
    from .kernel import KernelGenerator


class Frame:
    """Evaluates values for chunks of one width inside one nest; every value is written once per place."""

    def __init__(self, kernel: KernelGenerator, width: int) -> None:
        self.kernel, self.b, self.width = kernel, kernel.b, width
        self.maps = CoordinateMaps(kernel.elementwise.integers, width)
        self._memo: dict[tuple[Value, Coordinates], Lane] = {}
        self._others: dict[int, Frame] = {}

    def of_width(self, width: int) -> Frame:
        """The frame for chunks of another width at the same place."""
        if width in (self.width, 1):
            return self
        return self._others.setdefault(width, Frame(self.kernel, width))

    def evaluate(self, value: Value, coordinates: Coordinates) -> Lane:
        """The lanes of a tensor at `coordinates`; a scalar has none."""
        resident = self.kernel.env.get(value)
        if resident is not None and not isinstance(resident, Buffer):
            return resident
        key = (value, coordinates)
        lane = self._memo.get(key)
        if lane is None:
            if resident is not None:
                lane = self._from_scratch(resident, coordinates)
            elif value.owner is None:
                raise KeyError(f"{value!r} has no value here")
            else:
                lane = self._compute(value.owner, value.index, coordinates)
            self._memo[key] = lane
        return lane

    def _from_scratch(self, buffer: Buffer, coordinates: Coordinates) -> Lane:
        if buffer.strides == row_major(buffer.shape) and len(buffer.shape) > 0:
            size = math.prod(buffer.shape)
            flat = self._flat(buffer.shape, coordinates)
            order = self.maps.lane_order(flat)
            if order is not None:
                home = Buffer(buffer.offset, (size,), (1,), buffer.element)
                whole, lanes = order
                chunk = self._from_scratch(home, (whole,))
                return Vector(self.b.shuffle(self.kernel.elementwise.lanes.vector(chunk, self.width), lanes))
        address = self.address(buffer, coordinates)
        return self.kernel.memory.load(address, None, None, buffer.element, self.width)

    def address(self, buffer: Buffer, coordinates: Coordinates) -> Lane:
        """Where the element at `coordinates` of a kept tile lies."""
        shape, strides = buffer.shape, buffer.strides
        if strides == row_major(shape):
            coordinates, shape, strides = (self._flat(shape, coordinates),), (math.prod(shape),), (1,)
        flat = Buffer(buffer.offset, shape, strides, buffer.element)
        return self.kernel.memory.buffer_address(flat, [self.maps.value(c) for c in coordinates], self.width)

    def _flat(self, shape: tuple[int, ...], coordinates: Coordinates) -> Coordinate:
        """The position in the row-major order of a tile of `shape`."""
        return self.maps.reshape(coordinates, shape, (math.prod(shape),))[0]

    def _pair(self, op: Op, result: int, coordinates: Coordinates) -> Lane:
        """A reduction over an axis of two: both halves are computed where they are needed, and combined."""
        axis = op.attrs["axis"]
        halves = []
        for k in (0, 1):
            place = (*coordinates[:axis], self.maps.constant(k), *coordinates[axis:])
            halves.append([self.evaluate(o, place) for o in op.operands])
        values, form = self.kernel.elementwise.values([*halves[0], *halves[1]], self.width)
        count = len(op.operands)
        combined = Combiner(self.kernel, op)(values[:count], values[count:])
        for other, value in zip(op.results, combined):
            self._memo[other, coordinates] = form(value)
        return form(combined[result])

    def _compute(self, op: Op, result: int, coordinates: Coordinates) -> Lane:
        name = op.name
        if name == "tt.splat":
            return self.evaluate(op.operands[0], ())
        if name in VIEWS:
            return view(self, op, result, coordinates)
        if name == "tt.make_range":
            return self._range(op, coordinates[0])
        if name == "tt.load":
            return self._load(op, coordinates)
        if name == "arith.constant" and not op.attrs["value"].is_splat:
            return self._table(op.result, op.attrs["value"].values, coordinates)
        if name == "tt.reduce":
            return self._pair(op, result, coordinates)
        if name == "tt.gather":
            return self._gather(op, coordinates)
        operands = [self.evaluate(o, coordinates if shape_of(o.type) else ()) for o in op.operands]
        lane = self.kernel.elementwise.emit(op, operands, self.width)
        whole = self.kernel.elementwise.lanes.whole
        if whole is not None and name == "arith.cmpi" and not isinstance(lane, tuple):
            whole.saw(op, lane, self.width)
        if isinstance(lane, tuple):
            for other, part in zip(op.results, lane):
                self._memo[other, coordinates] = part
            return lane[result]
        return lane

    def _range(self, op: Op, coordinate: Coordinate) -> Lane:
        position = self.maps.value(coordinate)
        element, start = element_of(op.result.type), op.attrs["start"]
        lanes = self.kernel.elementwise.lanes
        if isinstance(position, Index):
            return Index(lanes.add(position.first, self.b.constant("i64", start)), position.step, element)
        narrow = self.b.cast("trunc", lanes.vector(position, self.width), element)
        return Vector(self.b.binary("add", narrow, self.b.constant(element, start, self.width)))

    def _load(self, op: Op, coordinates: Coordinates) -> Lane:
        pointer, *rest = (self.evaluate(o, coordinates if shape_of(o.type) else ()) for o in op.operands)
        mask, other = [*rest, None, None][:2]
        mask = self._mask(mask)
        return self.kernel.memory.device_load(op, pointer, mask, other, element_of(op.result.type), self.width)

    def _mask(self, mask: Lane | None) -> Lane | None:
        """Where a load whose mask is `mask` reads."""
        return mask

    def _gather(self, op: Op, coordinates: Coordinates) -> Lane:
        """The source at positions given by the indices along one axis: from scratch, or computed there."""
        source, indices = op.operands
        axis = op.attrs["axis"]
        picked = pick(self, op, self.maps.value(coordinates[axis]))
        if picked is not None:
            return picked
        lanes = self.kernel.elementwise.lanes
        wide = lanes.extended(self._places(indices, coordinates), self.width)
        moved = (*coordinates[:axis], wide, *coordinates[axis + 1 :])
        home = self.kernel.env.get(source)
        if home is None:
            return self.evaluate(source, moved)
        if not isinstance(home, Buffer):
            return home
        positions = [self.maps.value(c) for c in moved]
        address = self.kernel.memory.buffer_address(home, positions, self.width)
        return self.kernel.memory.load(address, None, None, home.element, self.width)

    def _places(self, indices: Value, coordinates: Coordinates) -> Lane:
        """Where a gather takes from: looked up where that is known but no count."""
        table = None if self.kernel.strides.is_position(indices) else self.kernel.tables.of(indices)
        if table is None:
            return self.evaluate(indices, coordinates)
        return self._table(indices, table.flatten().tolist(), coordinates)

    def _table(self, value: Value, numbers: Sequence[int | float], coordinates: Coordinates) -> Lane:
        """The constant tile `value`, whose elements are `numbers`."""
        element, shape = element_of(value.type), shape_of(value.type)
        size = math.prod(shape)
        (flat,) = self.maps.reshape(coordinates, shape, (size,))
        table = self.b.table(element, numbers)
        memory = self.kernel.memory
        size_in_memory = 1 if element == "i1" else BITS[element] // 8
        address = memory.address(table, self.maps.value(flat), size_in_memory, self.width)
        return memory.load(address, None, None, element, self.width)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def strides_with_innermost(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Dense strides in which neighbours along `axis` are adjacent and the other axes keep their order."""
    strides, step = [0] * len(shape), 1
    for a in (axis, *(a for a in reversed(range(len(shape))) if a != axis)) if shape else ():
        strides[a] = step
        step *= shape[a]
    return tuple(strides)

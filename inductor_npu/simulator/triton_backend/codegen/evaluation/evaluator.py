"""The values of tiles at a chunk of lanes: computed where they are needed, or read from scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ttir.ir import Op, Value
from ..analysis.operations import VIEWS
from ..emit.context import CodegenContext
from ..forms.coordinate import Coordinate, Coordinates
from ..forms.lane import Index, Lane, Vector
from ..forms.scratch import Buffer, row_major
from ..forms.types import BITS, element_of, shape_of
from ..forms.value import Val
from .combiner import Combiner
from .constant_gather import constant_gather
from .coordinate_maps import CoordinateMaps
from .views import joined, source_coordinates


class ChunkEvaluator:
    """Evaluates values for chunks of one width inside one nest; every value is written once per place."""

    def __init__(self, context: CodegenContext, width: int) -> None:
        self.context, self.b, self.width = context, context.b, width
        self.maps = CoordinateMaps(context.integers, width)
        self._memo: dict[tuple[Value, Coordinates], Lane] = {}
        self._others: dict[int, ChunkEvaluator] = {}

    def of_width(self, width: int) -> ChunkEvaluator:
        """The evaluator for chunks of another width at the same place."""
        if width in (self.width, 1):
            return self
        return self._others.setdefault(width, ChunkEvaluator(self.context, width))

    def evaluate(self, value: Value, coordinates: Coordinates) -> Lane:
        """The lanes of a tensor at `coordinates`; a scalar has none."""
        resident = self.context.places.get(value)
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
                return Vector(self.b.shuffle(self.context.lanes.vector(chunk, self.width), lanes))
        address = self.address(buffer, coordinates)
        return self.context.memory.load(address, None, None, buffer.element, self.width)

    def address(self, buffer: Buffer, coordinates: Coordinates) -> Lane:
        """Where the element at `coordinates` of a kept tile lies."""
        shape, strides = buffer.shape, buffer.strides
        if strides == row_major(shape):
            coordinates, shape, strides = (self._flat(shape, coordinates),), (math.prod(shape),), (1,)
        flat = Buffer(buffer.offset, shape, strides, buffer.element)
        return self.context.memory.buffer_address(flat, [self.maps.value(c) for c in coordinates], self.width)

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
        values, form = self.context.elementwise.values([*halves[0], *halves[1]], self.width)
        count = len(op.operands)
        combined = Combiner(self.context, op)(values[:count], values[count:])
        for other, value in zip(op.results, combined):
            self._memo[other, coordinates] = form(value)
        return form(combined[result])

    def _compute(self, op: Op, result: int, coordinates: Coordinates) -> Lane:
        name = op.name
        if name == "tt.splat":
            return self.evaluate(op.operands[0], ())
        if name in VIEWS:
            return self._view(op, result, coordinates)
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
        lane = self.context.elementwise.emit(op, operands, self.width)
        edges = self.context.lanes.edges
        if edges is not None and name == "arith.cmpi" and not isinstance(lane, tuple):
            edges.saw(op, lane, self.width)
        if isinstance(lane, tuple):
            for other, part in zip(op.results, lane):
                self._memo[other, coordinates] = part
            return lane[result]
        return lane

    def _view(self, op: Op, result: int, coordinates: Coordinates) -> Lane:
        """An operation that only moves elements."""
        if op.name != "tt.join":
            return self.evaluate(op.operands[0], source_coordinates(self.maps, op, result, coordinates))
        which, inner = self.maps.value(coordinates[-1]), coordinates[:-1]  # the last coordinate chooses the operand
        if isinstance(which, Index) and which.step == 0 and which.first.constant is not None:
            return self.evaluate(op.operands[which.first.constant], inner)
        low, high = (self.evaluate(o, inner) for o in op.operands)
        return joined(self.context, which, low, high, self.width)

    def _range(self, op: Op, coordinate: Coordinate) -> Lane:
        position = self.maps.value(coordinate)
        element, start = element_of(op.result.type), op.attrs["start"]
        lanes = self.context.lanes
        if isinstance(position, Index):
            return Index(
                self.context.scalars.add(position.first, self.b.constant("i64", start)), position.step, element
            )
        narrow = self.b.cast("trunc", lanes.vector(position, self.width), element)
        return Vector(self.b.binary("add", narrow, self.b.constant(element, start, self.width)))

    def _load(self, op: Op, coordinates: Coordinates) -> Lane:
        pointer, *rest = (self.evaluate(o, coordinates if shape_of(o.type) else ()) for o in op.operands)
        mask, other = [*rest, None, None][:2]
        mask = self._mask(mask)
        return self.context.memory.device_load(op, pointer, mask, other, element_of(op.result.type), self.width)

    def _mask(self, mask: Lane | None) -> Lane | None:
        """Where a load whose mask is `mask` reads."""
        return mask

    def _gather(self, op: Op, coordinates: Coordinates) -> Lane:
        """The source at positions given by the indices along one axis: from scratch, or computed there."""
        source, indices = op.operands
        axis = op.attrs["axis"]

        def read(first: Val, size: int, step: int) -> Lane:
            there = self.of_width(size)
            return there.evaluate(source, (there.maps.shared(first, step),))

        constant = constant_gather(self.context, op, self.maps.value(coordinates[axis]), self.width, read)
        if constant is not None:
            return constant
        lanes = self.context.lanes
        wide = lanes.extended(self._places(indices, coordinates), self.width)
        moved = (*coordinates[:axis], wide, *coordinates[axis + 1 :])
        home = self.context.places.get(source)
        if home is None:
            return self.evaluate(source, moved)
        if not isinstance(home, Buffer):
            return home
        positions = [self.maps.value(c) for c in moved]
        address = self.context.memory.buffer_address(home, positions, self.width)
        return self.context.memory.load(address, None, None, home.element, self.width)

    def _places(self, indices: Value, coordinates: Coordinates) -> Lane:
        """Where a gather takes from: looked up where that is known but no count."""
        table = None if self.context.facts.strides.is_position(indices) else self.context.facts.constants.of(indices)
        if table is None:
            return self.evaluate(indices, coordinates)
        return self._table(indices, table.flatten().tolist(), coordinates)

    def _table(self, value: Value, numbers: Sequence[int | float], coordinates: Coordinates) -> Lane:
        """The constant tile `value`, whose elements are `numbers`."""
        element, shape = element_of(value.type), shape_of(value.type)
        size = math.prod(shape)
        (flat,) = self.maps.reshape(coordinates, shape, (size,))
        table = self.b.table(element, numbers)
        memory = self.context.memory
        size_in_memory = 1 if element == "i1" else BITS[element] // 8
        address = memory.address(table, self.maps.value(flat), size_in_memory, self.width)
        return memory.load(address, None, None, element, self.width)


def scalar_of(context: CodegenContext, value: Value) -> Val:
    """A scalar, or the only element of a tensor of one."""
    evaluator = ChunkEvaluator(context, 0)
    return context.lanes.scalar(evaluator.evaluate(value, (evaluator.maps.zero,) * len(shape_of(value.type))))

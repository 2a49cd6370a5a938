"""Associative scans: along the lanes of a chunk by doubling steps, or chunk by chunk along another axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .combine import Combiner, Values
from .coordinates import Coordinates
from .frame import Frame, strides_with_innermost
from .lanes import Index, Uniform, Vector
from .memory import Buffer
from .nest import Nest
from .plan import Group
from .types import element_of

if TYPE_CHECKING:
    from .kernel import KernelGenerator


class ScanNest(Nest):
    """The nest of one tt.scan; its results are kept in scratch."""

    def __init__(self, kernel: KernelGenerator, group: Group) -> None:
        op = group.roots[0].op
        self.op, self.reverse = op, bool(op.attrs.get("reverse"))
        self.combine = Combiner(kernel, op)
        super().__init__(kernel, group)
        strides = strides_with_innermost(self.shape, group.vector_axis)
        self.homes: list[Buffer] = [kernel.allocate(self.shape, element_of(r.type), strides) for r in op.results]

    def emit(self) -> None:
        super().emit()
        for result, home in zip(self.op.results, self.homes):
            self.kernel.env[result] = home

    def _vector_loop(self) -> None:
        if self.reduce_run is None:  # an axis of one element: nothing to combine
            for start, stop, width in self._parts():
                frame = Frame(self.kernel, width)
                if self.vector_run is None:
                    self._store_results(frame, self._operands(frame), self.coordinates(frame))
                    continue
                with self._loop(self.vector_run, start, stop, max(width, 1), lanes=1):
                    self._store_results(frame, self._operands(frame), self.coordinates(frame))
        elif self.reduce_run is self.vector_run:
            self._along_lanes()
        else:
            for start, stop, width in self._parts():
                frame = Frame(self.kernel, width)
                with self._loop(self.vector_run, start, stop, max(width, 1), lanes=1):
                    self._along_loop(frame)

    def _operands(self, frame: Frame) -> Values:
        coordinates = self.coordinates(frame)
        return [self._value(frame.evaluate(v, coordinates), frame.width) for v in self.op.operands]

    def _store_results(self, frame: Frame, values: Values, coordinates: Coordinates) -> None:
        for home, value in zip(self.homes, values):
            lane = Vector(value) if value.lanes else Uniform(value)
            self.kernel.memory.store(frame.address(home, coordinates), lane, None, home.element, frame.width)

    # -- along an axis that is looped over ---------------------------------------------------------------------------
    def _along_loop(self, frame: Frame) -> None:
        run = self.reduce_run
        lanes = self.kernel.elementwise.lanes
        self.at[run] = Index(self.b.constant("i64", run.extent - 1 if self.reverse else 0), 0, "i64")
        so_far = self._operands(frame)
        self._store_results(frame, so_far, self.coordinates(frame))
        loop = self.b.open_loop(1, run.extent, 1)
        carried = [self.b.phi(loop, v) for v in so_far]
        position = lanes.subtract(self.b.constant("i64", run.extent - 1), loop.iv) if self.reverse else loop.iv
        self.at[run] = Index(position, 0, "i64")
        so_far = self.combine(carried, self._operands(frame))
        self._store_results(frame, so_far, self.coordinates(frame))
        self.b.close_loop(loop, so_far)
        del self.at[run]

    # -- along the lanes ---------------------------------------------------------------------------------------------
    def _along_lanes(self) -> None:
        """Chunk after chunk in the direction of the scan; the last lane's value is carried on."""
        parts = self._parts()
        carry: Values | None = None
        for start, stop, width in reversed(parts) if self.reverse else parts:
            frame = Frame(self.kernel, width)
            chunks = (stop - start) // max(width, 1)
            first = 0
            if carry is None:
                carry, first = self._lane_chunk(frame, self._chunk_start(start, stop, width, 0), None), 1
            if first >= chunks:
                continue
            loop = self.b.open_loop(first * width, chunks * width, width) if chunks - first > 1 else None
            if loop is None:
                carry = self._lane_chunk(frame, self._chunk_start(start, stop, width, first), carry)
                continue
            carried = [self.b.phi(loop, v) for v in carry]
            lanes = self.kernel.elementwise.lanes
            if self.reverse:
                position = lanes.subtract(self.b.constant("i64", stop - width), loop.iv)
            else:
                position = lanes.add(loop.iv, self.b.constant("i64", start))
            carry = self._lane_chunk(frame, Index(position, 1, "i64"), carried)
            self.b.close_loop(loop, carry)
        self.at.pop(self.vector_run, None)

    def _chunk_start(self, start: int, stop: int, width: int, chunk: int) -> Index:
        position = stop - (chunk + 1) * width if self.reverse else start + chunk * width
        return Index(self.b.constant("i64", position), 1, "i64")

    def _lane_chunk(self, frame: Frame, position: Index, carry: Values | None) -> Values:
        width = frame.width
        self.at[self.vector_run] = position
        backwards = range(width - 1, -1, -1)
        values = self._operands(frame)
        if self.reverse:
            values = [self.b.shuffle(v, backwards) for v in values]
        distance = 1
        while distance < width:
            shifted = [self.b.shuffle(v, [max(i - distance, 0) for i in range(width)]) for v in values]
            combined = self.combine(shifted, values)
            # Lanes below `distance` have nobody before them: they keep what they have.
            order = [i if i < distance else width + i for i in range(width)]
            values = [self.b.shuffle(v, order, c) for v, c in zip(values, combined)]
            distance *= 2
        last = [self.b.extract(v, width - 1) for v in values]
        if carry is not None:
            values = self.combine([self.b.splat(c, width) for c in carry], values)
            last = self.combine(carry, last)
        results = [self.b.shuffle(v, backwards) for v in values] if self.reverse else values
        self._store_results(frame, results, self.coordinates(frame))
        return last

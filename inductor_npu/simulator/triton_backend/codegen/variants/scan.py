"""Associative scans: along the lanes of a chunk by doubling steps, or chunk by chunk along another axis."""

from __future__ import annotations

import math

from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..evaluation.combiner import Combiner, Values
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinates
from ..forms.lane import Index, Uniform, Vector
from ..forms.scratch import strides_with_innermost
from ..forms.types import element_of, shape_of
from ..nests.axis_runs import AxisRun
from ..nests.loop_nest import LoopNest
from ..planning.steps import Group, OpRoot
from ..planning.vector_axis import vector_axis


class ScanNest(LoopNest):
    """The nest of one tt.scan; its results are kept in scratch."""

    def __init__(self, context: CodegenContext, group: Group, op: Op) -> None:
        self.op, self.reverse = op, bool(op.attrs.get("reverse"))
        self.combine = Combiner(context, op)
        super().__init__(context, group)
        allocate, strides = context.scratch.allocate, strides_with_innermost(self.shape, group.vector_axis)
        self.homes = [allocate(self.shape, element_of(r.type), strides) for r in op.results]

    def emit(self) -> None:
        super().emit()
        self.context.places.update(zip(self.op.results, self.homes))

    def _innermost(self) -> None:
        run = self.vector_run
        if run is not None and run is self.reduce_run:
            self._along_lanes(run)
            return
        for start, stop, width in self._parts():
            evaluator = ChunkEvaluator(self.context, width)
            if run is None:
                self._chunk(evaluator)
                continue
            with self._loop(run, start, stop, max(width, 1), 1):
                self._chunk(evaluator)

    def _chunk(self, evaluator: ChunkEvaluator) -> None:
        """A chunk whose lanes are not combined with each other."""
        if self.reduce_run is None:  # an axis of one element: nothing to combine
            self._store_results(evaluator, self._operands(evaluator), self.coordinates(evaluator))
        else:
            self._along_loop(evaluator, self.reduce_run)

    def _operands(self, evaluator: ChunkEvaluator) -> Values:
        coordinates = self.coordinates(evaluator)
        return [self._value(evaluator.evaluate(v, coordinates), evaluator.width) for v in self.op.operands]

    def _store_results(self, evaluator: ChunkEvaluator, values: Values, coordinates: Coordinates) -> None:
        for home, value in zip(self.homes, values):
            lane = Vector(value) if value.lanes else Uniform(value)
            self._store_in_scratch(evaluator, home, coordinates, lane)

    # -- along an axis that is looped over ---------------------------------------------------------------------------
    def _along_loop(self, evaluator: ChunkEvaluator, run: AxisRun) -> None:
        last = self.b.constant("i64", run.extent - 1)
        self.at[run] = Index(last if self.reverse else self.b.constant("i64", 0), 0, "i64")
        so_far = self._operands(evaluator)
        self._store_results(evaluator, so_far, self.coordinates(evaluator))
        loop = self.b.open_loop(1, run.extent, 1)
        carried = [self.b.phi(loop, v) for v in so_far]
        position = self.context.scalars.subtract(last, loop.iv) if self.reverse else loop.iv
        self.at[run] = Index(position, 0, "i64")
        so_far = self.combine(carried, self._operands(evaluator))
        self._store_results(evaluator, so_far, self.coordinates(evaluator))
        self.b.close_loop(loop, so_far)
        del self.at[run]

    # -- along the lanes ---------------------------------------------------------------------------------------------
    def _along_lanes(self, run: AxisRun) -> None:
        """Chunk after chunk in the direction of the scan; the last lane's value is carried on."""
        parts = self._parts()
        carry: Values | None = None
        for start, stop, width in reversed(parts) if self.reverse else parts:
            evaluator = ChunkEvaluator(self.context, width)
            chunks = (stop - start) // max(width, 1)
            first = 0
            if carry is None:
                carry, first = self._lane_chunk(evaluator, run, self._chunk_start(start, stop, width, 0), None), 1
            if first >= chunks:
                continue
            loop = self.b.open_loop(first * width, chunks * width, width) if chunks - first > 1 else None
            if loop is None:
                carry = self._lane_chunk(evaluator, run, self._chunk_start(start, stop, width, first), carry)
                continue
            carried = [self.b.phi(loop, v) for v in carry]
            if self.reverse:
                position = self.context.scalars.subtract(self.b.constant("i64", stop - width), loop.iv)
            else:
                position = self.context.scalars.add(loop.iv, self.b.constant("i64", start))
            carry = self._lane_chunk(evaluator, run, Index(position, 1, "i64"), carried)
            self.b.close_loop(loop, carry)
        del self.at[run]

    def _chunk_start(self, start: int, stop: int, width: int, chunk: int) -> Index:
        position = stop - (chunk + 1) * width if self.reverse else start + chunk * width
        return Index(self.b.constant("i64", position), 1, "i64")

    def _lane_chunk(self, evaluator: ChunkEvaluator, run: AxisRun, position: Index, carry: Values | None) -> Values:
        width = evaluator.width
        self.at[run] = position
        backwards = range(width - 1, -1, -1)
        values = self._operands(evaluator)
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
        self._store_results(evaluator, results, self.coordinates(evaluator))
        return last


def emit_scan(context: CodegenContext, op: Op) -> None:
    """Writes a tt.scan; its results are kept in scratch."""
    root = OpRoot(op, shape_of(op.operands[0].type), op.attrs["axis"])
    group = Group([root], root.shape, root.axis)
    group.vector_axis = vector_axis(group, context.places, context.facts.strides)
    context.work += math.prod(group.shape)
    ScanNest(context, group, op).emit()

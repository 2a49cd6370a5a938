"""A group of roots as one loop nest, of which some are reductions over one axis of the tile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...ttir.ir import Op, Value
from ..analysis.combining import identity_of
from ..emit.context import CodegenContext
from ..evaluation.combiner import Combiner, Values
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinates
from ..forms.lane import Index, Uniform, Vector
from ..forms.scratch import Buffer, strides_with_innermost
from ..forms.types import element_of, shape_of
from ..planning.masked_off import adds_nothing
from ..planning.steps import Group, KeptRoot, Root
from .axis_runs import AxisRun
from .loop_splitting import is_worth_two_loops, whole_chunks
from .root_nest import RootNest

ACCUMULATORS = 4  # partial results of a reduction, to hide the latency of combining


@dataclass(eq=False, slots=True)
class Reduction:
    """A reduction on its way through a nest, `number` of its group's roots: partial results so far."""

    number: int
    op: Op
    combine: Combiner
    identity: list[int | float]  # empty: not known
    parts: list[Values] = field(default_factory=list)


class ReductionNest(RootNest):
    """One loop nest for one group with an axis to reduce: along the lanes, or chunk by chunk along another axis."""

    def __init__(self, context: CodegenContext, group: Group, axis: int) -> None:
        self.axis = axis
        self.reductions: list[Reduction] = []
        super().__init__(context, group)

    def _prepare(self, root: Root) -> None:
        if isinstance(root, KeptRoot) or root.is_effect:
            super()._prepare(root)
            return
        op, number = root.op, self.group.roots.index(root)
        self.reductions.append(Reduction(number, op, Combiner(self.context, op), identity_of(op) or []))
        shape = shape_of(op.results[0].type)
        if math.prod(shape) == 1:
            return
        axis = self.group.vector_axis - (self.group.vector_axis > self.axis)
        strides = strides_with_innermost(shape, min(axis, len(shape) - 1))
        for result in op.results:
            self.context.places[result] = self.context.scratch.allocate(shape, element_of(result.type), strides)

    def _innermost(self) -> None:
        run = self.vector_run
        if run is None or run is not self.reduce_run:
            super()._innermost()
            return
        for start, stop, width in self._parts():
            evaluator = ChunkEvaluator(self.context, width)
            self._accumulate(evaluator, run, start, stop, max(width, 1), lanes=1)
        self.at.pop(run, None)
        self._finish_lanes()

    def _at_chunk(self, evaluator: ChunkEvaluator) -> None:
        """A chunk whose lanes are not reduced."""
        if self.reduce_run is None:
            self._chunk(evaluator)
        else:
            self._accumulate(evaluator, self.reduce_run, 0, self.reduce_run.extent, 1, lanes=0)
        self._finish(evaluator)

    def _does_nothing(self, off: set[Value]) -> bool:
        return False  # each position has a result, which is read with those before it

    def _chunk(self, evaluator: ChunkEvaluator) -> list[Values]:
        """Writes the roots' effects for the chunk at the current coordinates; returns what its reductions are to
        combine.
        """
        work = self._write_roots(evaluator)
        found = []
        for reduction in self.reductions:
            found.append([self._value(lane, evaluator.width) for lane in work[reduction.number]])
            if self.reduce_run is None:
                reduction.parts = [found[-1]]
        return found

    # -- partial results ---------------------------------------------------------------------------------------------
    def _accumulate(
        self, evaluator: ChunkEvaluator, run: AxisRun, start: int, stop: int, step: int, lanes: int
    ) -> None:
        """Combines chunks [start, stop) of the run, `step` apart, into one partial result per accumulator."""
        chunks = (stop - start) // step
        unroll = min(ACCUMULATORS, chunks)
        looped = chunks // unroll
        known = all(r.identity for r in self.reductions)
        if looped < 2:
            self._straight(evaluator, run, start, chunks, step, lanes)
            return
        twice = lanes and known and is_worth_two_loops(self.context.options, stop - start, step)
        if twice and adds_nothing(self.group.roots, self.context.places, None):
            self._accumulate_split(evaluator, run, start, stop, step)
            return
        first = start
        initial: list[list[Values]]
        if known:
            initial = [[self._identity(r, evaluator.width) for _ in range(unroll)] for r in self.reductions]
        else:
            initial = [[] for _ in self.reductions]
            for k in range(unroll):
                self._at(run, start + k * step, lanes)
                for slots, values in zip(initial, self._chunk(evaluator)):
                    slots.append(values)
            first = start + unroll * step
        body_stop = start + looped * unroll * step
        loop = self.b.open_loop(first, body_stop, unroll * step)
        carried = [[[self.b.phi(loop, v) for v in values] for values in slots] for slots in initial]
        following: list[list[Values]] = [[] for _ in self.reductions]
        for k in range(unroll):
            position = self.context.scalars.add(loop.iv, self.b.constant("i64", k * step))
            self.at[run] = Index(position, lanes, "i64")
            for i, values in enumerate(self._chunk(evaluator)):
                self.reductions[i].combine.expect(carried[i][k], initial[i][k], values)
                following[i].append(self.reductions[i].combine(carried[i][k], values))
        self.b.close_loop(loop, [v for slots in following for values in slots for v in values])
        for reduction, slots in zip(self.reductions, following):
            reduction.parts += slots if not lanes else [reduction.combine.tree(slots)]
        self._straight(evaluator, run, body_stop, (stop - body_stop) // step, step, lanes)

    def _accumulate_split(self, evaluator: ChunkEvaluator, run: AxisRun, start: int, stop: int, width: int) -> None:
        """`_accumulate` along the lanes of what adds nothing where it is masked off."""
        unroll = ACCUMULATORS
        step, chunks = unroll * width, (stop - start) // width
        body_stop = start + chunks // unroll * step
        loop = self.b.open_loop(start, body_stop, step)
        initial = [self._identity(r, evaluator.width) for r in self.reductions]
        carried = [[[self.b.phi(loop, v) for v in values] for _ in range(unroll)] for values in initial]
        add = self.context.scalars.add
        with whole_chunks(self.context.lanes, loop, width) as seen:
            for k in range(unroll):
                seen.ahead = k * width
                self.at[run] = Index(add(loop.iv, self.b.constant("i64", k * width)), 1, "i64")
                for reduction, first, slots, values in zip(self.reductions, initial, carried, self._chunk(evaluator)):
                    reduction.combine.expect(slots[k], first, values)
                    slots[k] = reduction.combine(slots[k], values)
        following = [v for slots in carried for values in slots for v in values]
        if not seen.ends:
            self.b.close_loop(loop, following)
            for reduction, slots in zip(self.reductions, carried):
                reduction.parts.append(reduction.combine.tree(slots))
            self._straight(evaluator, run, body_stop, (stop - body_stop) // width, width, 1)
            return
        whole, some = seen.bounds(start, stop, step, width)
        merged = iter(self.b.close_guarded(loop, whole, following))
        sums = [
            r.combine.tree([[next(merged) for _ in v] for v in slots]) for r, slots in zip(self.reductions, carried)
        ]
        if not adds_nothing(self.group.roots, self.context.places, seen.off):
            some = self.b.constant("i64", stop)
        loop = self.b.open_loop(start, stop, width, whole)
        rest = [[self.b.phi(loop, v) for v in values] for values in sums]
        self.at[run] = Index(loop.iv, 1, "i64")
        found = self._chunk(ChunkEvaluator(self.context, width))
        rest = [r.combine(before, values) for r, before, values in zip(self.reductions, rest, found)]
        merged = iter(self.b.close_guarded(loop, some, [v for values in rest for v in values]))
        for reduction, values in zip(self.reductions, rest):
            reduction.parts.append([next(merged) for _ in values])

    def _straight(
        self, evaluator: ChunkEvaluator, run: AxisRun, start: int, chunks: int, step: int, lanes: int
    ) -> None:
        for k in range(chunks):
            self._at(run, start + k * step, lanes)
            for reduction, values in zip(self.reductions, self._chunk(evaluator)):
                reduction.parts.append(values)

    def _at(self, run: AxisRun, position: int, lanes: int) -> None:
        self.at[run] = Index(self.b.constant("i64", position), lanes, "i64")

    def _identity(self, reduction: Reduction, width: int) -> Values:
        return [self.b.constant(e, i, width) for e, i in zip(reduction.combine.elements, reduction.identity)]

    def _finish(self, evaluator: ChunkEvaluator) -> None:
        """Stores the results of reductions over an axis that is not the vector axis."""
        for reduction in self.reductions:
            values = reduction.combine.tree(reduction.parts)
            reduction.parts = []
            if self.reduce_run is not None:
                self.at.pop(self.reduce_run, None)
            coordinates = self.coordinates(evaluator)
            self._deliver(evaluator, reduction.op, values, coordinates)

    def _finish_lanes(self) -> None:
        """Combines the lanes of partial results and stores them."""
        evaluator = ChunkEvaluator(self.context, 0)
        for reduction in self.reductions:
            by_width: dict[int, list[Values]] = {}
            for values in reduction.parts:
                by_width.setdefault(values[0].lanes, []).append(values)
            scalars = [reduction.combine.within(reduction.combine.tree(parts)) for parts in by_width.values()]
            reduction.parts = []
            self._deliver(evaluator, reduction.op, reduction.combine.tree(scalars), self.coordinates(evaluator))

    def _deliver(self, evaluator: ChunkEvaluator, op: Op, values: Values, coordinates: Coordinates) -> None:
        kept = coordinates[: self.axis] + coordinates[self.axis + 1 :]
        for result, value in zip(op.results, values):
            home = self.context.places.get(result)
            lane = Vector(value) if value.lanes else Uniform(value)
            if isinstance(home, Buffer):
                self._store_in_scratch(evaluator, home, kept, lane)
            else:
                self.context.places[result] = lane

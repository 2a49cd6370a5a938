"""Writes a group of roots as one loop nest: loops over the tile's axes, the innermost statement a chunk of lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..ttir.ir import Op
from .atomics import emit_atomic, emit_plain
from .builder import Loop, Val
from .combine import Combiner, Values
from .coordinates import Coordinate, Coordinates
from .effects import ATOMICS
from .frame import Frame, row_major, strides_with_innermost
from .lanes import Index, Lane, Uniform, Vector
from .memory import Buffer
from .picking import chunks_in_a_period, gathers_known_places, needed
from .plan import Group, Root
from .types import BITS, element_of, shape_of
from .whole_chunks import adds_nothing, is_worth_two_loops, whole_chunks

if TYPE_CHECKING:
    from .kernel import KernelGenerator

ACCUMULATORS = 4  # partial results of a reduction, to hide the latency of combining
TINY = 4  # axes up to this extent are merged with their neighbours


@dataclass(eq=False, slots=True)
class Run:
    """Neighbouring axes [first, last) that one loop walks, up to position `extent`."""

    first: int
    last: int
    extent: int


@dataclass(eq=False, slots=True)
class Reduction:
    """A reduction on its way through a nest: partial results so far."""

    root: Root
    combine: Combiner
    identity: list[int | float] | None
    parts: list[Values] = field(default_factory=list)


class Nest:
    """One loop nest for one group."""

    def __init__(self, kernel: KernelGenerator, group: Group) -> None:
        self.kernel, self.b, self.group = kernel, kernel.b, group
        self.shape = group.shape
        self.runs = self._merge_axes()
        self.vector_run = self._choose_vector_run()
        self.reduce_run = next((r for r in self.runs if group.axis is not None and r.first == group.axis), None)
        if group.axis is not None and self.shape[group.axis] == 1:
            self.reduce_run = None
        self.reductions: list[Reduction] = []
        self.new_homes: list[Root] = []
        for root in group.roots:
            if root.op is None:
                if root.buffer is None:
                    self.new_homes.append(root)
                    strides = (
                        row_major(self.shape)
                        if root.row_major
                        else strides_with_innermost(self.shape, group.vector_axis)
                    )
                    root.buffer = kernel.allocate(self.shape, element_of(root.value.type), strides)
            elif root.op.name in ATOMICS:
                if kernel.uses[root.op.result]:
                    element = element_of(root.op.result.type)
                    kernel.env[root.op.result] = kernel.allocate(self.shape, element, row_major(self.shape))
            elif root.op.name == "tt.reduce":
                combine = Combiner(kernel, root.op)
                self.reductions.append(Reduction(root, combine, combine.identity()))
                self._result_buffers(root)
        for run in self.runs if group.axis is None else ():
            run.extent = needed(kernel, group.roots, self.shape, run.first, run.last)
        self.gathers = gathers_known_places(kernel, group.roots)
        self.chunks = 1  # of the natural width that make one chunk
        self.width = self._vector_width()
        self.at: dict[Run, Index] = {}

    # -- shape of the nest -------------------------------------------------------------------------------------------
    def _merge_axes(self) -> list[Run]:
        """Runs of axes: tiny ones join their neighbours, the reduced axis stands alone, axes of one element vanish."""
        runs: list[Run] = []
        for axis, extent in enumerate(self.shape):
            alone = axis == self.group.axis
            previous = runs[-1] if runs else None
            if (
                alone
                or previous is None
                or (self.group.axis is not None and previous.first <= self.group.axis < previous.last)
            ):
                runs.append(Run(axis, axis + 1, extent))
            elif (
                extent == 1
                or previous.extent == 1
                or (extent <= TINY and previous.extent <= TINY * 64 and not self._wide(previous))
            ):
                previous.last, previous.extent = axis + 1, previous.extent * extent
            else:
                runs.append(Run(axis, axis + 1, extent))
        return runs

    def _wide(self, run: Run) -> bool:
        """Whether the run holds an axis that is worth a loop of its own."""
        return any(self.shape[a] > TINY for a in range(run.first, run.last))

    def _choose_vector_run(self) -> Run | None:
        runs = [r for r in self.runs if r.extent > 1]
        if not runs:
            return None
        preferred = next((r for r in runs if r.first <= self.group.vector_axis < r.last), runs[-1])
        if preferred.extent < TINY:
            return max(runs, key=lambda r: r.extent)
        return preferred

    def _vector_width(self) -> int:
        """Lanes of a chunk: a register of the widest number that the nest computes with."""
        if self.vector_run is None or any(self._goes_one_by_one(root.op) for root in self.group.roots):
            return 0
        widest = 1
        for element in self.kernel.elements_in(self.group):
            widest = max(widest, BITS[element] // 8)
        lanes = max(2, min(self.kernel.options.vector_bits // 8 // widest, 32))
        lanes = min(lanes, 1 << (self.vector_run.extent.bit_length() - 1))
        if len(self.shape) > 1 or self.group.axis is not None:
            return lanes
        self.chunks = chunks_in_a_period(self.kernel, self.group.roots, self.vector_run.extent, lanes)
        return lanes * self.chunks

    def _goes_one_by_one(self, op: Op | None) -> bool:
        """Whether it is an atomic, unless these are plain and its addresses are neighbours."""
        if op is None or op.name not in ATOMICS:
            return False
        return not self.kernel.adds_plainly or self.kernel.strides.along(op.operands[0], self.group.vector_axis) != 1

    def _result_buffers(self, root: Root) -> None:
        shape = shape_of(root.op.result.type) if len(root.op.results) == 1 else shape_of(root.op.results[0].type)
        if math.prod(shape) == 1:
            return
        axis = self.group.vector_axis - (self.group.vector_axis > self.group.axis)
        strides = strides_with_innermost(shape, min(axis, len(shape) - 1))
        for result in root.op.results:
            self.kernel.env[result] = self.kernel.allocate(shape, element_of(result.type), strides)

    # -- loops -------------------------------------------------------------------------------------------------------
    def emit(self) -> None:
        outer = [r for r in self.runs if r is not self.vector_run and r is not self.reduce_run]
        self._outer(outer)
        for root in self.new_homes:
            self.kernel.env[root.value] = root.buffer

    def _outer(self, runs: list[Run]) -> None:
        if not runs:
            self._vector_loop()
            return
        run, rest = runs[0], runs[1:]
        if run.extent <= TINY * 2 and self.gathers:  # where an index is a constant, so is more of a gather's places
            for position in range(run.extent):
                self.at[run] = Index(self.b.constant("i64", position), 0, "i64")
                self._outer(rest)
            self.at.pop(run)
            return
        with self._loop(run, 0, run.extent, 1):
            self._outer(rest)

    def _loop(self, run: Run, start: int, stop: int, step: int, lanes: int = 0) -> _OpenRun:
        return _OpenRun(self, run, start, stop, step, 1 if lanes else 0)

    def _parts(self) -> list[tuple[int, int, int]]:
        """The vector axis as (start, stop, width): full chunks, then ever narrower ones, so that no lane is ever
        beyond the tile.
        """
        if self.vector_run is None:
            return [(0, 1, 0)]
        parts, start, width = [], 0, self.width
        extent = self.vector_run.extent
        if not width:
            return [(0, extent, 0)]
        while start < extent:
            stop = start + (extent - start) // width * width
            if stop > start:
                parts.append((start, stop, width))
            narrower = self.chunks if width == self.width and self.chunks > 1 else 2
            start, width = stop, width // narrower
        return parts

    def _vector_loop(self) -> None:
        for start, stop, width in self._parts():
            frame = Frame(self.kernel, width)
            if self.reduce_run is not None and self.reduce_run is self.vector_run:
                self._accumulate(frame, self.vector_run, start, stop, max(width, 1), lanes=1)
            elif self.vector_run is None:
                self._single(frame)
            else:
                self._chunks(frame, start, stop, max(width, 1))
        if self.reduce_run is not None and self.reduce_run is self.vector_run:
            self._finish_lanes()

    def _single(self, frame: Frame) -> None:
        """A chunk of a nest whose reductions, if any, are not along its lanes."""
        if self.reduce_run is None:
            self._chunk(frame)
        else:
            self._accumulate(frame, self.reduce_run, 0, self.reduce_run.extent, 1, lanes=0)
        self._finish(frame)

    def _chunks(self, frame: Frame, start: int, stop: int, width: int) -> None:
        """Chunks [start, stop) of the vector axis: those before the edges of all masks, if there are any, and the
        rest.
        """
        run = self.vector_run
        if not is_worth_two_loops(self.kernel.options, stop - start, width):
            with self._loop(run, start, stop, width, lanes=frame.width):
                self._single(frame)
            return
        loop = self.b.open_loop(start, stop, width)
        self.at[run] = Index(loop.iv, 1, "i64")
        with whole_chunks(self.kernel.elementwise.lanes, loop, width) as seen:
            self._single(frame)
        if seen.ends:
            whole, some = seen.bounds(start, stop, width, width)
            self.b.close_guarded(loop, whole)
            if self.reductions or not adds_nothing(self.kernel, self.group.roots, seen.off):
                some = self.b.constant("i64", stop)  # each position has a result, which is read with those before it
            loop = self.b.open_loop(start, stop, width, whole)
            self.at[run] = Index(loop.iv, 1, "i64")
            self._single(Frame(self.kernel, width))
            self.b.close_guarded(loop, some)
        else:
            self.b.close_loop(loop)
        del self.at[run]

    # -- a chunk -----------------------------------------------------------------------------------------------------
    def coordinates(self, frame: Frame) -> Coordinates:
        result: list[Coordinate] = []
        for run in self.runs:
            here = self.at.get(run, frame.maps.zero)
            if run.last - run.first == 1:
                result.append(here)
            else:
                axes = self.shape[run.first : run.last]
                result += frame.maps.reshape((here,), (math.prod(axes),), axes)
        return tuple(result)

    def _chunk(self, frame: Frame) -> list[Values]:
        """Writes the roots' effects for the chunk at the current coordinates; returns what its reductions are to
        combine.
        """
        coordinates = self.coordinates(frame)
        work = []
        for root in self.group.roots:
            work.append([frame.evaluate(v, coordinates) for v in root.operands])
        for root, lanes in zip(self.group.roots, work):
            if root.op is None:
                self.kernel.memory.store(
                    frame.address(root.buffer, coordinates), lanes[0], None, root.buffer.element, frame.width
                )
            elif root.op.name == "tt.store":
                mask = lanes[2] if len(lanes) > 2 else None
                element = element_of(root.op.operands[1].type)
                self.kernel.memory.device_store(root.op, lanes[0], lanes[1], mask, element, frame.width)
            elif root.op.name != "tt.reduce" and self.kernel.adds_plainly:
                emit_plain(frame, root.op, lanes)
            elif root.op.name != "tt.reduce":
                emit_atomic(frame, root.op, lanes, coordinates)
        found = []
        for reduction in self.reductions:
            lanes = work[self.group.roots.index(reduction.root)]
            found.append([self._value(lane, frame.width) for lane in lanes])
            if self.reduce_run is None:
                reduction.parts = [found[-1]]
        return found

    def _value(self, lane: Lane, width: int) -> Val:
        lanes = self.kernel.elementwise.lanes
        return lanes.vector(lane, width) if width else lanes.scalar(lane)

    # -- reductions --------------------------------------------------------------------------------------------------
    def _accumulate(self, frame: Frame, run: Run, start: int, stop: int, step: int, lanes: int) -> None:
        """Combines chunks [start, stop) of the run, `step` apart, into one partial result per accumulator."""
        chunks = (stop - start) // step
        unroll = min(ACCUMULATORS, chunks)
        looped = chunks // unroll
        known = all(r.identity is not None for r in self.reductions)
        if looped < 2:
            self._straight(frame, run, start, chunks, step, lanes)
            return
        twice = lanes and known and is_worth_two_loops(self.kernel.options, stop - start, step)
        if twice and adds_nothing(self.kernel, self.group.roots, None):
            self._accumulate_whole_chunks(frame, run, start, stop, step)
            return
        first = start
        initial: list[list[Values]]
        if known:
            initial = [[self._identity(r, frame.width) for _ in range(unroll)] for r in self.reductions]
        else:
            initial = [[] for _ in self.reductions]
            for k in range(unroll):
                self._at(run, start + k * step, lanes)
                for slots, values in zip(initial, self._chunk(frame)):
                    slots.append(values)
            first = start + unroll * step
        body_stop = start + looped * unroll * step
        loop = self.b.open_loop(first, body_stop, unroll * step)
        carried = [[[self.b.phi(loop, v) for v in values] for values in slots] for slots in initial]
        following: list[list[Values]] = [[] for _ in self.reductions]
        for k in range(unroll):
            self.at[run] = Index(
                self.kernel.elementwise.lanes.add(loop.iv, self.b.constant("i64", k * step)), lanes, "i64"
            )
            for i, values in enumerate(self._chunk(frame)):
                self.reductions[i].combine.expect(carried[i][k], initial[i][k], values)
                following[i].append(self.reductions[i].combine(carried[i][k], values))
        self.b.close_loop(loop, [v for slots in following for values in slots for v in values])
        for reduction, slots in zip(self.reductions, following):
            reduction.parts += slots if not lanes else [reduction.combine.tree(slots)]
        self._straight(frame, run, body_stop, (stop - body_stop) // step, step, lanes)

    def _accumulate_whole_chunks(self, frame: Frame, run: Run, start: int, stop: int, width: int) -> None:
        """`_accumulate` along the lanes of what adds nothing where it is masked off."""
        unroll = ACCUMULATORS
        step, chunks = unroll * width, (stop - start) // width
        body_stop = start + chunks // unroll * step
        loop = self.b.open_loop(start, body_stop, step)
        initial = [self._identity(r, frame.width) for r in self.reductions]
        carried = [[[self.b.phi(loop, v) for v in values] for _ in range(unroll)] for values in initial]
        add = self.kernel.elementwise.lanes.add
        with whole_chunks(self.kernel.elementwise.lanes, loop, width) as seen:
            for k in range(unroll):
                seen.ahead = k * width
                self.at[run] = Index(add(loop.iv, self.b.constant("i64", k * width)), 1, "i64")
                for reduction, first, slots, values in zip(self.reductions, initial, carried, self._chunk(frame)):
                    reduction.combine.expect(slots[k], first, values)
                    slots[k] = reduction.combine(slots[k], values)
        following = [v for slots in carried for values in slots for v in values]
        if not seen.ends:
            self.b.close_loop(loop, following)
            for reduction, slots in zip(self.reductions, carried):
                reduction.parts.append(reduction.combine.tree(slots))
            self._straight(frame, run, body_stop, (stop - body_stop) // width, width, 1)
            return
        whole, some = seen.bounds(start, stop, step, width)
        merged = iter(self.b.close_guarded(loop, whole, following))
        sums = [
            r.combine.tree([[next(merged) for _ in v] for v in slots]) for r, slots in zip(self.reductions, carried)
        ]
        if not adds_nothing(self.kernel, self.group.roots, seen.off):
            some = self.b.constant("i64", stop)
        loop = self.b.open_loop(start, stop, width, whole)
        rest = [[self.b.phi(loop, v) for v in values] for values in sums]
        self.at[run] = Index(loop.iv, 1, "i64")
        found = self._chunk(Frame(self.kernel, width))
        rest = [r.combine(before, values) for r, before, values in zip(self.reductions, rest, found)]
        merged = iter(self.b.close_guarded(loop, some, [v for values in rest for v in values]))
        for reduction, values in zip(self.reductions, rest):
            reduction.parts.append([next(merged) for _ in values])

    def _straight(self, frame: Frame, run: Run, start: int, chunks: int, step: int, lanes: int) -> None:
        for k in range(chunks):
            self._at(run, start + k * step, lanes)
            for reduction, values in zip(self.reductions, self._chunk(frame)):
                reduction.parts.append(values)

    def _at(self, run: Run, position: int, lanes: int) -> None:
        self.at[run] = Index(self.b.constant("i64", position), lanes, "i64")

    def _identity(self, reduction: Reduction, width: int) -> Values:
        return [self.b.constant(e, i, width) for e, i in zip(reduction.combine.elements, reduction.identity)]

    def _finish(self, frame: Frame) -> None:
        """Stores the results of reductions over an axis that is not the vector axis."""
        for reduction in self.reductions:
            values = reduction.combine.tree(reduction.parts)
            reduction.parts = []
            if self.reduce_run is not None:
                self.at.pop(self.reduce_run, None)
            coordinates = self.coordinates(frame)
            self._deliver(frame, reduction.root.op, values, coordinates)

    def _finish_lanes(self) -> None:
        """Combines the lanes of partial results and stores them."""
        frame = Frame(self.kernel, 0)
        self.at.pop(self.vector_run, None)
        for reduction in self.reductions:
            by_width: dict[int, list[Values]] = {}
            for values in reduction.parts:
                by_width.setdefault(values[0].lanes, []).append(values)
            scalars = [reduction.combine.within(reduction.combine.tree(parts)) for parts in by_width.values()]
            reduction.parts = []
            self._deliver(frame, reduction.root.op, reduction.combine.tree(scalars), self.coordinates(frame))

    def _deliver(self, frame: Frame, op: Op, values: Values, coordinates: Coordinates) -> None:
        kept = coordinates[: self.group.axis] + coordinates[self.group.axis + 1 :]
        for result, value in zip(op.results, values):
            home = self.kernel.env.get(result)
            lane = Vector(value) if value.lanes else Uniform(value)
            if isinstance(home, Buffer):
                self.kernel.memory.store(frame.address(home, kept), lane, None, home.element, frame.width)
            else:
                self.kernel.env[result] = lane


class _OpenRun:
    """A loop over a run of axes, or no loop where there is one step only."""

    def __init__(self, nest: Nest, run: Run, start: int, stop: int, step: int, lane_step: int) -> None:
        self.nest, self.run, self.bounds, self.lane_step = nest, run, (start, stop, step), lane_step
        self.loop: Loop | None = None

    def __enter__(self) -> None:
        start, stop, step = self.bounds
        b = self.nest.b
        if stop - start > step:
            self.loop = b.open_loop(start, stop, step)
            self.nest.at[self.run] = Index(self.loop.iv, self.lane_step, "i64")
        else:
            self.nest.at[self.run] = Index(b.constant("i64", start), self.lane_step, "i64")

    def __exit__(self, kind: object, *_: object) -> None:
        self.nest.at.pop(self.run, None)
        if self.loop is not None and kind is None:
            self.nest.b.close_loop(self.loop)

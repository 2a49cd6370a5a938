"""A loop nest: loops over the axes of a tile, the innermost statement a chunk of lanes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinate, Coordinates
from ..forms.lane import Index, Lane
from ..forms.scratch import Buffer
from ..forms.value import Val
from ..planning.gather_patterns import gathers_constant_places
from ..planning.steps import Group
from ..planning.written_extent import written_extent
from .axis_runs import TINY, AxisRun, merge_axes, vector_run
from .chunk_width import chunk_width


class LoopNest:
    """The loops for one group; a subclass says what is done in the innermost.

    `runs` are what the loops walk, of which `vector_run` fills the lanes, `width` of them, and `reduce_run` is reduced;
    `at` is where the loops are that are open.
    """

    def __init__(self, context: CodegenContext, group: Group) -> None:
        self.context, self.b, self.group = context, context.b, group
        self.shape = group.shape
        self.runs = merge_axes(group.shape, group.axis)
        self.vector_run = vector_run(self.runs, group.vector_axis)
        self.reduce_run = next((r for r in self.runs if group.axis is not None and r.first == group.axis), None)
        if group.axis is not None and self.shape[group.axis] == 1:
            self.reduce_run = None
        for run in self.runs if group.axis is None else ():
            run.extent = written_extent(group.roots, context.facts.constants, self.shape, run.first, run.last)
        self.gathers = gathers_constant_places(group.roots, context.facts.constants, context.places)
        self.width, self.chunks = chunk_width(context, group, self.vector_run)
        self.at: dict[AxisRun, Index] = {}

    def emit(self) -> None:
        """Writes the nest."""
        self._outer([r for r in self.runs if r is not self.vector_run and r is not self.reduce_run])

    def _innermost(self) -> None:
        """Writes the loop along the lanes, and the one that reduces, at the positions of the others."""
        raise NotImplementedError

    # -- loops -------------------------------------------------------------------------------------------------------
    def _outer(self, runs: list[AxisRun]) -> None:
        if not runs:
            self._innermost()
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

    @contextmanager
    def _loop(self, run: AxisRun, start: int, stop: int, step: int, lane_step: int = 0) -> Iterator[None]:
        """A loop over a run of axes, or no loop where there is one step only; chunks along lanes have `lane_step` 1."""
        loop = self.b.open_loop(start, stop, step) if stop - start > step else None
        first = loop.iv if loop is not None else self.b.constant("i64", start)
        self.at[run] = Index(first, lane_step, "i64")
        yield
        del self.at[run]
        if loop is not None:
            self.b.close_loop(loop)

    # -- a chunk -----------------------------------------------------------------------------------------------------
    def coordinates(self, evaluator: ChunkEvaluator) -> Coordinates:
        """Where in the tile the chunk is that is being written."""
        result: list[Coordinate] = []
        for run in self.runs:
            here = self.at.get(run, evaluator.maps.zero)
            if run.last - run.first == 1:
                result.append(here)
            else:
                axes = self.shape[run.first : run.last]
                result += evaluator.maps.reshape((here,), (math.prod(axes),), axes)
        return tuple(result)

    def _store_in_scratch(self, evaluator: ChunkEvaluator, home: Buffer, coordinates: Coordinates, lane: Lane) -> None:
        """Keeps the chunk at `coordinates` of a tile whose place is `home`."""
        address = evaluator.address(home, coordinates)
        self.context.memory.store(address, lane, None, home.element, evaluator.width)

    def _value(self, lane: Lane, width: int) -> Val:
        """What a reduction or scan combines: a vector, or a scalar where chunks have no lanes."""
        lanes = self.context.lanes
        return lanes.vector(lane, width) if width else lanes.scalar(lane)

"""A group of roots as one loop nest: stores, atomics, and values that are kept in scratch."""

from __future__ import annotations

from ...ttir.ir import Value
from ..analysis.operations import ATOMICS
from ..emit.atomics import emit_atomic, emit_plain_atomic
from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.lane import Index, Lane, Uniform
from ..forms.scratch import Buffer, row_major, strides_with_innermost
from ..forms.types import element_of
from ..planning.masked_off import adds_nothing
from ..planning.steps import Group, KeptRoot, Root
from .axis_runs import AxisRun
from .loop_nest import LoopNest
from .loop_splitting import is_worth_two_loops, whole_chunks


class RootNest(LoopNest):
    """One loop nest for one group, without reductions."""

    def __init__(self, context: CodegenContext, group: Group) -> None:
        super().__init__(context, group)
        self._homes: list[tuple[Value, Buffer]] = []  # of the values that are in scratch from now on
        self._targets: dict[KeptRoot, Buffer] = {}
        for root in group.roots:
            self._prepare(root)

    def _prepare(self, root: Root) -> None:
        """Gives what `root` computes a place in scratch, where it is kept."""
        allocate, by_rows = self.context.scratch.allocate, row_major(self.shape)
        if isinstance(root, KeptRoot):
            buffer = root.buffer
            if buffer is None:
                strides = by_rows if root.row_major else strides_with_innermost(self.shape, self.group.vector_axis)
                buffer = allocate(self.shape, element_of(root.value.type), strides)
                self._homes.append((root.value, buffer))
            self._targets[root] = buffer
        elif root.op.name in ATOMICS and self.context.use_counts[root.op.result]:
            result = root.op.result
            self.context.places[result] = allocate(self.shape, element_of(result.type), by_rows)

    def emit(self) -> None:
        super().emit()
        self.context.places.update(self._homes)

    def _innermost(self) -> None:
        for start, stop, width in self._parts():
            evaluator = ChunkEvaluator(self.context, width)
            if self.vector_run is None:
                self._at_chunk(evaluator)
            else:
                self._chunks(evaluator, self.vector_run, start, stop, max(width, 1))

    def _at_chunk(self, evaluator: ChunkEvaluator) -> None:
        """What is done for a chunk along the lanes."""
        self._write_roots(evaluator)

    def _does_nothing(self, off: set[Value]) -> bool:
        """Whether chunks need not be visited where all comparisons in `off` are false."""
        return adds_nothing(self.group.roots, self.context.places, off)

    def _chunks(self, evaluator: ChunkEvaluator, run: AxisRun, start: int, stop: int, width: int) -> None:
        """Chunks [start, stop) of the vector axis: those before the edges of all masks, if there are any, and the
        rest.
        """
        if not is_worth_two_loops(self.context.options, stop - start, width):
            with self._loop(run, start, stop, width, 1 if evaluator.width else 0):
                self._at_chunk(evaluator)
            return
        loop = self.b.open_loop(start, stop, width)
        self.at[run] = Index(loop.iv, 1, "i64")
        with whole_chunks(self.context.lanes, loop, width) as seen:
            self._at_chunk(evaluator)
        if seen.ends:
            whole, some = seen.bounds(start, stop, width, width)
            self.b.close_guarded(loop, whole)
            if not self._does_nothing(seen.off):
                some = self.b.constant("i64", stop)
            loop = self.b.open_loop(start, stop, width, whole)
            self.at[run] = Index(loop.iv, 1, "i64")
            self._at_chunk(ChunkEvaluator(self.context, width))
            self.b.close_guarded(loop, some)
        else:
            self.b.close_loop(loop)
        del self.at[run]

    def _write_roots(self, evaluator: ChunkEvaluator) -> list[list[Lane]]:
        """Writes the roots' effects for the chunk at the current coordinates; returns the operands of each root."""
        coordinates = self.coordinates(evaluator)
        work = []
        for root in self.group.roots:
            work.append([evaluator.evaluate(v, coordinates) for v in root.operands])
        for root, lanes in zip(self.group.roots, work):
            if isinstance(root, KeptRoot):
                self._store_in_scratch(evaluator, self._targets[root], coordinates, lanes[0])
            elif root.op.name == "tt.store":
                mask = lanes[2] if len(lanes) > 2 else None
                element = element_of(root.operands[1].type)
                self.context.memory.device_store(root.op, lanes[0], lanes[1], mask, element, evaluator.width)
            elif root.is_effect and self.context.plain_atomics:
                emit_plain_atomic(self.context, root.op, lanes, evaluator.width)
            elif root.is_effect:
                old = Uniform(emit_atomic(self.context, root.op, lanes))
                home = self.context.places.get(root.op.result)
                if isinstance(home, Buffer):
                    self._store_in_scratch(evaluator, home, coordinates, old)
        return work

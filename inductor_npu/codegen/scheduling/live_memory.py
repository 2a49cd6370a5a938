"""What a fusion does to the memory that is live while a graph runs.

One kernel for two loops runs where the first of them ran: what the second one reads has to be computed before, what it
writes lives from there on, and what only the first one needed is freed later. Inductor looks at the distance of both
in the graph alone (`are_long_distant_nodes`). Here the steps between them are walked through once more, in the order
in which Inductor would run them, and their peak is compared with the one before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torch._inductor import memory
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen.scheduling.contraction_fusion import is_product
from inductor_npu.support.optional_steps import Kind, optional_step


class _Kind(Enum):
    CALL = auto()
    PRODUCT = auto()
    POINTWISE = auto()
    REDUCTION = auto()


# Which kinds of loops, one reading the other's result, may become one kernel, so that the result is not in memory.
_FUSED = frozenset(
    {
        (_Kind.PRODUCT, _Kind.POINTWISE),
        (_Kind.POINTWISE, _Kind.POINTWISE),
        (_Kind.POINTWISE, _Kind.REDUCTION),
        (_Kind.REDUCTION, _Kind.POINTWISE),
        (_Kind.REDUCTION, _Kind.REDUCTION),
    }
)


# How much above what no fusion can avoid the peak may be: few bytes of a reduction are no reason against a kernel.
_SLACK = 1.03

# Those that may write what they make over what they read last.
_LOOPS = (_Kind.POINTWISE, _Kind.REDUCTION)


def _kind(node: BaseSchedulerNode) -> _Kind:
    if node.is_template() or not all(isinstance(part, SchedulerNode) for part in node.get_nodes()):
        return _Kind.CALL
    if is_product(node):
        return _Kind.PRODUCT
    return _Kind.REDUCTION if node.is_reduction() else _Kind.POINTWISE


@dataclass(eq=False)
class _Buffer:
    """Memory of `allocated` bytes, of which `freed` are given back after the last of `readers`; never if it `stays`."""

    allocated: int
    freed: int
    stays: bool
    readers: set[_Step] = field(default_factory=set)

    def last_read(self) -> int:
        """The place of the last reader; -1 if there is none."""
        return max((step.place for step in self.readers), default=-1)


@dataclass(eq=False)
class _Step:
    """One kernel or call: its `place` in the order, the names of its operators, what it makes and reads in memory, the
    names of the buffers that it defines, and of those that have to be defined before.
    """

    place: int
    kind: _Kind
    operators: list[str] = field(default_factory=list)
    made: list[_Buffer] = field(default_factory=list)
    read: set[_Buffer] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)


class LiveMemory:
    """The steps of a graph in their order, and the bytes that are live at each."""

    def __init__(self, scheduler: Any) -> None:
        """`scheduler`: Inductor's, before its first fusion."""
        self._order: list[_Step | None] = [_Step(place, _kind(node)) for place, node in enumerate(scheduler.nodes)]
        self._steps: dict[str, _Step] = {}  # by the names of operators
        self._before = self._read(scheduler)
        self._peaks = [0] * len(self._order)
        self._entering = [0] * len(self._order)
        self._write(0, self._order)
        self._unavoidable = self._peak_of_unavoidable()

    def _read(self, scheduler: Any) -> int:
        """Reads steps and buffers from Inductor's; returns the bytes of inputs that the graph may free."""
        nodes = scheduler.nodes
        inputs = memory.get_freeable_input_buf(nodes, OrderedSet(V.graph.graph_inputs.keys()))
        memory.assign_memory_planning_info_for_scheduler_buffers(nodes, scheduler.name_to_buf)
        outputs = OrderedSet(V.graph.get_output_names())
        step_of = dict(zip(nodes, self._order, strict=True))

        def add(name: str, planned: Any) -> _Buffer:
            buffer = _Buffer(planned.size_alloc, planned.size_free, name in outputs)
            buffer.readers.update(step_of[node] for node in planned.succ_nodes)
            for reader in buffer.readers:
                reader.read.add(buffer)
            return buffer

        for node, step in step_of.items():
            assert step is not None
            step.operators.extend(part.get_name() for part in node.get_nodes())
            self._steps.update((name, step) for name in step.operators)
            step.defined.update(node.get_buffer_names())
            step.needed.update(dependency.name for dependency in node.unmet_dependencies)
            step.made.extend(add(output.get_name(), output.mpi_buffer) for output in node.get_outputs())
        return sum(add(name, each.mpi_buffer).freed for name, each in inputs.items())

    def _peak_of_unavoidable(self) -> int:
        """The peak of the buffers that no fusion can keep out of memory."""
        steps = [step for step in self._order if step is not None]
        avoided = {
            buffer
            for step in steps
            for buffer in step.made
            if not buffer.stays and all((step.kind, reader.kind) in _FUSED for reader in buffer.readers)
        }
        return max((peak for _, peak in self._walk(0, len(steps) - 1, steps, avoided)), default=0)

    @optional_step(Kind.PLAN, "live memory")
    def reason_against(self, first: BaseSchedulerNode, second: BaseSchedulerNode) -> str | None:
        """Returns why `first` and `second` as one kernel would take more memory than both; None if they do not."""
        earlier, later = self._in_order(first, second)
        if earlier is later:
            return None
        segment = self._fused_segment(earlier, later)
        if segment is None:
            return None  # a cycle, which Inductor will find
        before = max(_SLACK * self._unavoidable, *self._peaks[earlier.place : later.place + 1])
        after = max(peak for _, peak in self._walk(earlier.place, later.place, segment))
        return f"{after} bytes live at once, separate {before:.0f}" if after > before else None

    def fuse(self, first: BaseSchedulerNode, second: BaseSchedulerNode) -> None:
        """Notes that `first` and `second` are one kernel from now on."""
        earlier, later = self._in_order(first, second)
        segment = None if earlier is later else self._fused_segment(earlier, later)
        if segment is None:
            return
        fused = next(step for step in segment if step.place < 0)
        for buffer in fused.read:
            buffer.readers -= {earlier, later}
            buffer.readers.add(fused)
        self._steps.update((name, fused) for name in fused.operators)
        place = earlier.place
        holes: list[_Step | None] = [None] * (later.place + 1 - place - len(segment))
        self._write(place, [*segment, *holes])

    def _in_order(self, first: BaseSchedulerNode, second: BaseSchedulerNode) -> tuple[_Step, _Step]:
        steps = (self._steps[node.get_first_name()] for node in (first, second))
        earlier, later = sorted(steps, key=lambda step: step.place)
        return earlier, later

    def _fused_segment(self, earlier: _Step, later: _Step) -> list[_Step] | None:
        """The steps from `earlier` to `later` in the order with both as one, whose place is -1; None if what `later`
        needs cannot be computed before `earlier`.
        """
        needed = set(later.needed)
        before: list[_Step] = []
        behind: list[_Step] = []
        for step in reversed(self._order[earlier.place + 1 : later.place]):
            if step is None:
                continue
            if step.defined.isdisjoint(needed):
                behind.append(step)
            else:
                before.append(step)
                needed |= step.needed
        if any(not earlier.defined.isdisjoint(step.needed) for step in before):
            return None
        return [*reversed(before), _fused(earlier, later), *reversed(behind)]

    def _walk(
        self, start: int, end: int, steps: Sequence[_Step | None], without: Set[_Buffer] = frozenset()
    ) -> Iterator[tuple[int, int]]:
        """For each of `steps`, which take the places from `start` to `end`, the bytes before it and at its peak; those
        of the buffers `without` are not counted.
        """
        last = {
            buffer: number
            for number, step in enumerate(steps)
            if step is not None
            for buffer in (*step.made, *step.read)
        }
        freed: dict[int, list[int]] = defaultdict(list)
        for buffer, number in last.items():
            if not buffer.stays and buffer.last_read() <= end and buffer not in without:
                freed[number].append(buffer.freed)
        live = self._entering[start] if start else self._before
        for number, step in enumerate(steps):
            before = live
            made = [buffer.allocated for buffer in step.made if buffer not in without] if step is not None else []
            live += sum(made) - sum(freed[number])
            yield before, before + sum(made) - (_in_place(made, freed[number]) if step and step.kind in _LOOPS else 0)

    def _write(self, start: int, steps: Sequence[_Step | None]) -> None:
        """Puts `steps` from place `start` on, and what is live at each."""
        for place, step in enumerate(steps, start):
            if step is not None:
                step.place = place
        end = start + len(steps)
        self._order[start:end] = steps
        walked = list(self._walk(start, end - 1, steps))
        self._entering[start:end] = [live for live, _ in walked]
        self._peaks[start:end] = [peak for _, peak in walked]


def _fused(earlier: _Step, later: _Step) -> _Step:
    """Both as one step, with no place yet. What only they read of each other's is never in memory."""
    both = {earlier, later}
    inside = {buffer for buffer in (*earlier.made, *later.made) if not buffer.stays and buffer.readers <= both}
    return _Step(
        -1,
        next(kind for kind in _Kind if kind in (earlier.kind, later.kind)),
        [*earlier.operators, *later.operators],
        [buffer for buffer in (*earlier.made, *later.made) if buffer not in inside],
        (earlier.read | later.read) - inside,
        earlier.defined | later.defined,
        (earlier.needed | later.needed) - earlier.defined - later.defined,
    )


def _in_place(made: list[int], freed: list[int]) -> int:
    """How many bytes of the buffers `made` take the place of buffers `freed` of the same size."""
    return sum(size * count for size, count in (Counter(made) & Counter(freed)).items())

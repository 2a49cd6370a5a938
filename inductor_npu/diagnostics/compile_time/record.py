"""The time of this process's compiles, by graph and phase."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from inductor_npu.diagnostics.compile_time.phases import Phase
from inductor_npu.diagnostics.compile_time.times import GraphTime, PhaseTime

if TYPE_CHECKING:
    from rich.console import RenderableType

# In place of a compile id.
OUTSIDE = "outside torch.compile"
_NANOSECONDS = 1e9


@dataclass
class CompileTimes:
    """What compiling took, and where kernels came from. `print` shows it as a table.

    graphs: one entry for each graph, in the order in which they were compiled; kernels outside of `torch.compile` count
    as a graph of their own, called "outside torch.compile".
    kernels_compiled, kernels_found: how many were compiled, and how many came from the compile cache. A kernel that the
    process has already is neither.
    """

    graphs: tuple[GraphTime, ...] = ()
    kernels_compiled: int = 0
    kernels_found: int = 0

    @property
    def phases(self) -> tuple[PhaseTime, ...]:
        """The phases of all graphs together, in the order in which a compile goes through them."""
        of_all = [time for graph in self.graphs for time in graph.phases]
        by_phase = {phase: [time for time in of_all if time.phase is phase] for phase in Phase}
        return tuple(
            PhaseTime(
                phase,
                sum(time.seconds for time in times),
                sum(time.processor_seconds for time in times),
                sum(time.spans for time in times),
            )
            for phase, times in by_phase.items()
            if times
        )

    @property
    def seconds(self) -> float:
        """Seconds on the clock in which something was compiled or looked up."""
        return sum(graph.seconds for graph in self.graphs)

    def seconds_in(self, phase: Phase) -> float:
        """Seconds on the clock in `phase`, without the phases inside it."""
        return sum(time.seconds for time in self.phases if time.phase is phase)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "seconds": self.seconds,
            "kernels_compiled": self.kernels_compiled,
            "kernels_found": self.kernels_found,
            "phases": [phase.to_json() for phase in self.phases],
            "graphs": [
                {"compile_id": graph.compile_id, "phases": [phase.to_json() for phase in graph.phases]}
                for graph in self.graphs
            ],
        }

    def __rich__(self) -> RenderableType:
        from inductor_npu.diagnostics.compile_time.table import table
        from inductor_npu.support.units import plural

        compiles = plural(len(self.graphs), "compile")
        kernels = f"{self.kernels_compiled} compiled, {self.kernels_found} found"
        return table(f"Compile time: {compiles}; kernels: {kernels}", self.phases)

    def __str__(self) -> str:
        from inductor_npu.support import terminal

        return terminal.as_text(self)


@dataclass
class Spent:
    """Nanoseconds and spans by (graph, phase), and kernels by where they came from."""

    clock: Counter[tuple[str, Phase]] = field(default_factory=Counter)
    processor: Counter[tuple[str, Phase]] = field(default_factory=Counter)
    spans: Counter[tuple[str, Phase]] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)

    def parts(self) -> tuple[Counter[Any], ...]:
        return self.clock, self.processor, self.spans, self.kernels

    def __sub__(self, before: Spent) -> Spent:
        """What was spent since `before`."""
        return Spent(*(now - then for now, then in zip(self.parts(), before.parts())))


_lock = threading.Lock()
_spent = Spent()


def add(graph: str, phase: Phase, clock: int, processor: int) -> None:
    """Adds a span of `phase` that has ended: nanoseconds without the spans inside it."""
    with _lock:
        _spent.clock[graph, phase] += clock
        _spent.processor[graph, phase] += processor
        _spent.spans[graph, phase] += 1


def count_kernel(came_from: str) -> None:
    """Counts a kernel: `came_from` is "compiled" or "found"."""
    with _lock:
        _spent.kernels[came_from] += 1


def compile_times() -> CompileTimes:
    """What was compiled in this process so far; see `CompileTimes`."""
    return _times(_now())


@contextlib.contextmanager
def record_compile_times() -> Iterator[CompileTimes]:
    """Records what is compiled inside the `with` block: the object that it gives is filled in at the block's end."""
    before, times = _now(), CompileTimes()
    try:
        yield times
    finally:
        recorded = _times(_now() - before)
        times.graphs = recorded.graphs
        times.kernels_compiled, times.kernels_found = recorded.kernels_compiled, recorded.kernels_found


def _now() -> Spent:
    with _lock:
        return Spent(*(part.copy() for part in _spent.parts()))


def _times(spent: Spent) -> CompileTimes:
    return CompileTimes(_graphs(spent), spent.kernels["compiled"], spent.kernels["found"])


def _graphs(spent: Spent) -> tuple[GraphTime, ...]:
    def of(graph: str) -> tuple[PhaseTime, ...]:
        return tuple(
            PhaseTime(
                phase,
                spent.clock[graph, phase] / _NANOSECONDS,
                spent.processor[graph, phase] / _NANOSECONDS,
                spent.spans[graph, phase],
            )
            for phase in Phase
            if spent.spans[graph, phase]
        )

    return tuple(GraphTime(graph, of(graph)) for graph in dict.fromkeys(graph for graph, _ in spent.spans))

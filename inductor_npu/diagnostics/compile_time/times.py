"""The time of one phase of compiling, and of one graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inductor_npu.diagnostics.compile_time.phases import Phase


@dataclass(frozen=True)
class PhaseTime:
    """Time in one phase, without the phases inside it: seconds on the clock, seconds of the processor that its thread
    took, and how many spans were timed.
    """

    phase: Phase
    seconds: float
    processor_seconds: float
    spans: int

    def to_json(self) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "spans": self.spans,
        }


@dataclass(frozen=True)
class GraphTime:
    """What one graph took: `compile_id` is torch's, such as 0/0; its backward, compiled later, counts with it."""

    compile_id: str
    phases: tuple[PhaseTime, ...]

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

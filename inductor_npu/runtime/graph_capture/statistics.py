"""What became of calls of compiled functions that were to be captured: counts, and why some were not."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field

_seen: dict[str, CaptureStatistics] = {}


@dataclass
class CaptureStatistics:
    """Of one compiled function: a graph, or the part of one between operators that cannot be captured."""

    warmed_up: int = 0  # first calls of a combination of sizes, launched kernel by kernel
    captured: int = 0
    replayed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # other calls launched kernel by kernel, by reason

    @property
    def calls(self) -> int:
        """All of them."""
        return self.warmed_up + self.replayed + sum(self.skipped.values())

    def since(self, before: CaptureStatistics) -> CaptureStatistics:
        """What came after `before`, an earlier state."""
        return CaptureStatistics(
            self.warmed_up - before.warmed_up,
            self.captured - before.captured,
            self.replayed - before.replayed,
            self.skipped - before.skipped,
        )


def statistics_of(function: str) -> CaptureStatistics:
    """The statistics of the function with that name, to be added to."""
    return _seen.setdefault(function, CaptureStatistics())


def graph_captures() -> dict[str, CaptureStatistics]:
    """A copy of those of every compiled function of this process that was to be captured, by name."""
    return copy.deepcopy(_seen)

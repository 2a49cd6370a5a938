"""What became of calls of compiled functions that were to be captured: counts, and the reasons of those that were not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_seen: dict[str, CaptureStatistics] = {}


@dataclass
class CaptureStatistics:
    """Of one compiled function (a graph, or the part of one between operators that cannot be captured)."""

    warmed_up: int = 0  # first calls of a size, launched kernel by kernel
    captured: int = 0
    replayed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # calls launched kernel by kernel, by reason


def statistics_of(function: str) -> CaptureStatistics:
    """The statistics of the function with that name, to be added to."""
    return _seen.setdefault(function, CaptureStatistics())


def graph_captures() -> dict[str, CaptureStatistics]:
    """Of every compiled function of this process that was to be captured, by name."""
    return dict(_seen)

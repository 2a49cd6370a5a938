"""What is measured: cases in groups, each measured by itself, and what they need to know of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GROUPS = {
    "kernels": "Kernels",
    "models": "Models in bf16",
    "small": "A call with little work, in us",
    "launches": "Host time of a launch, in us",
    "compile": "Cold compile time",
}


@dataclass(frozen=True)
class Setup:
    """The run. ours, stock: device types. scale: 1 for sizes that fill a GPU, less for a rehearsal. rounds: turns of
    each side. seconds: of a side in a round. repeats: cold starts of each side. workers: processes that compile.
    """

    ours: str = "npu"
    stock: str = "cuda"
    scale: float = 1.0
    rounds: int = 7
    seconds: float = 0.02
    repeats: int = 1
    workers: int = 1

    @property
    def is_rehearsal(self) -> bool:
        return self.scale < 1

    def scaled(self, size: int, least: int = 4) -> int:
        """`size`, or the part of it that a rehearsal takes."""
        return max(least, round(size * self.scale))


@dataclass(frozen=True)
class Case:
    """`measure(setup)` gives what is known afterwards, as plain data: numbers of `report.py`."""

    group: str
    name: str
    measure: Callable[[Setup], dict[str, Any]]

"""The outcome of running a kernel as Ascend's compiler understood it, compared with the embedded NPU's result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class RunVerdict(str, Enum):
    """AGREES, or why not. CANNOT_EXECUTE says nothing about the kernel; the other two do."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OUT_OF_BOUNDS = "out of bounds"
    CANNOT_EXECUTE = "cannot execute"


@dataclass(frozen=True)
class Difference:
    """Elements of one argument's storage that differ by more than the tolerance.

    `index` counts the argument's elements from where it starts, in memory order; `coordinates` are None for an element
    of the storage that the argument does not show. `expected` is the embedded NPU's value, `found` that of Ascend's
    lowering, `tolerance` what was allowed there. `count` of `elements` differ; `largest` is the largest absolute
    difference (None: NaN).
    """

    argument: str
    index: int
    coordinates: tuple[int, ...] | None
    expected: float | int
    found: float | int
    tolerance: float
    count: int
    elements: int
    largest: float | int | None


@dataclass(frozen=True)
class Agreement:
    """One kernel, run on what it was launched with. Has a JSON form.

    `message` is a sentence for a person, "" where all agrees. `level` is how far Ascend's compiler had gone with what
    was executed: "middle end" (its arithmetic included) or "front end". `departs` names, where the results differ, the
    part of Ascend's compiler whose work differs first.
    """

    kernel: str
    key: str
    verdict: RunVerdict
    message: str
    level: str | None = None
    departs: str | None = None
    difference: Difference | None = None
    elements: int = 0
    seconds: float = 0.0
    overruns: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Agreement:
        difference = data["difference"]
        if difference is not None:
            coordinates = difference["coordinates"]
            difference = Difference(
                **{**difference, "coordinates": None if coordinates is None else tuple(coordinates)}
            )
        return cls(**{**data, "verdict": RunVerdict(data["verdict"]), "difference": difference})

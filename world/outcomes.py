"""What became of a case, and the file that makes a sweep resumable: one line of JSON a case; the last one counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from opinfo.outcomes import FAILURES, Verdict
from tools.json_lines import JsonLines

# The stages of a case, in their order.
BUILD, ON_CPU, EAGER, COMPILED, STOCK = (
    "build",
    "eager on the CPU",
    "eager on npu",
    "compiled for npu",
    "stock Inductor",
)


@dataclass
class Side:
    """What one way of running a case cost, in seconds of processor time.

    how: by which step it was judged right (world/judging.py). where: the innermost frames of an exception.
    seconds: of compiling, the first call without what the second one takes. milliseconds: of the second call.
    again: how many graphs the second call compiled anew. peak: bytes of weights, inputs and what a call holds besides.
    """

    verdict: Verdict = Verdict.SKIPPED
    reason: str = ""
    where: str = ""
    how: str = ""
    seconds: float = 0.0
    milliseconds: float = 0.0
    again: int = 0
    peak: int = 0


@dataclass
class Outcome:
    """A case's outcome. A side that was not asked is None.

    note: in what size the model was built. stage: where a case ended that did not end well.
    left_to_eager: calls by "operator | reason"; fallbacks: kernels that did not compile, so that their operators run in
    eager; eager_functions: what Dynamo left alone. passes: what world/passes.py measured.
    """

    case: str
    verdict: Verdict = Verdict.SKIPPED
    reason: str = ""
    stage: str = ""
    note: str = ""
    parameters: int = 0
    random: bool = False
    cpu: Side | None = None
    eager: Side | None = None
    npu: Side | None = None
    stock: Side | None = None
    graphs: int = 0
    kernels: int = 0
    library_calls: int = 0
    breaks: list[str] = field(default_factory=list)
    left_to_eager: dict[str, int] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    eager_functions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    passes: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return self.verdict in FAILURES

    def conclude(self) -> None:
        """The verdict is that of the compiled side, or of eager on npu if that fails and what is compiled does not."""
        for stage, side in ((COMPILED, self.npu), (EAGER, self.eager)):
            assert side is not None
            self.verdict, self.reason, self.stage = side.verdict, side.reason, stage
            if self.failed:
                return
        self.stage = ""

    @property
    def library(self) -> str:
        return self.case.partition("/")[0]


SIDES = ("cpu", "eager", "npu", "stock")


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The fields that say something."""
    told = {name: value for name, value in asdict(outcome).items() if value not in ("", 0, False, None, [], {})}
    for side in SIDES:
        if side in told:
            told[side] = {name: value for name, value in told[side].items() if value not in ("", 0)}
    return told


def from_json(told: dict[str, Any]) -> Outcome:
    """The outcome that `to_json` wrote. Fields that are not known any more are left out."""
    known = {one.name for one in fields(Outcome)}
    given = {name: value for name, value in told.items() if name in known}
    for side in SIDES:
        if side in given:
            given[side] = Side(**{**given[side], "verdict": Verdict(given[side]["verdict"])})
    return Outcome(**{**given, "verdict": Verdict(given["verdict"])})


class OutcomeFile:
    """Outcomes on disk, appended as they come; what is there when it is opened is known already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonLines(path)
        self.known = {told["case"]: from_json(told) for told in self._lines}

    def add(self, outcome: Outcome) -> None:
        self.known[outcome.case] = outcome
        self._lines.add(to_json(outcome))

    def forget(self, which: Callable[[Outcome], bool]) -> None:
        """Drops outcomes, so that their cases run again; the file keeps them until new ones follow."""
        self.known = {case: outcome for case, outcome in self.known.items() if not which(outcome)}


def read(paths: Iterable[Path]) -> dict[str, Outcome]:
    """The outcomes of several files; of a case that is in two, the later file's."""
    known: dict[str, Outcome] = {}
    for path in paths:
        known.update(OutcomeFile(path).known)
    return known

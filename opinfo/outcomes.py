"""The outcome of one case, and the file that makes a sweep resumable: one line of JSON per case; the last counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from tools.json_lines import JsonLines


class Verdict(str, Enum):
    """What became of a case, from good to bad; the last four are failures."""

    PASSED = "passed"
    SKIPPED = "skipped"  # there is nothing to hold it against: eager on the CPU refuses the sample
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"
    WRONG = "wrong value"


FAILURES = (Verdict.ERROR, Verdict.TIMEOUT, Verdict.CRASH, Verdict.WRONG)


@dataclass(frozen=True)
class Case:
    """One sample of one operator. `operator` is OpInfo's full name (with its variant), `dtype` torch's short name
    ("float32"), `index` the sample's place among those that OpInfo makes, `dynamic` whether sizes are arguments.
    """

    operator: str
    dtype: str
    index: int
    dynamic: bool = False


@dataclass(frozen=True)
class Outcome:
    """`reason`: one line; `backward:` before it if the forward pass alone passes. `eager`: what ran as eager operators
    though Inductor generates code for it, and graph breaks. `how`: "statistics" where values are random and only
    shapes, dtypes and means were compared, "shape" where values are not defined at all.
    """

    case: Case
    verdict: Verdict
    reason: str = ""
    eager: tuple[str, ...] = ()
    how: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return self.verdict in FAILURES


class OutcomeFile:
    """Outcomes on disk, appended as they come; what is there when it is opened is known already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[Case, Outcome] = {}
        self.ends: dict[tuple[str, str], int] = {}  # how many samples an operator has for a dtype, where that is known
        self._lines = JsonLines(path)
        for fields in self._lines:
            if "samples" in fields:
                self.ends[fields["operator"], fields["dtype"]] = fields["samples"]
            else:
                outcome = _outcome(fields)
                self.known[outcome.case] = outcome

    def add(self, outcome: Outcome) -> None:
        self.known[outcome.case] = outcome
        fields = {**asdict(outcome.case), **asdict(outcome)}
        del fields["case"]
        self._lines.add({name: value for name, value in fields.items() if value not in ("", ()) and value is not False})

    def add_end(self, operator: str, dtype: str, samples: int) -> None:
        """Records that the operator has that many samples of the dtype."""
        if self.ends.get((operator, dtype)) != samples:
            self.ends[operator, dtype] = samples
            self._lines.add({"operator": operator, "dtype": dtype, "samples": samples})

    def forget(self, which: Callable[[Outcome], bool] = lambda outcome: True) -> None:
        """Drops outcomes, so that their cases run again; the file keeps them until new ones follow."""
        self.known = {case: outcome for case, outcome in self.known.items() if not which(outcome)}


def _outcome(fields: dict[str, object]) -> Outcome:
    names = ("operator", "dtype", "index", "dynamic")
    case = Case(**{name: fields.pop(name) for name in names if name in fields})  # type: ignore[arg-type]
    fields["verdict"] = Verdict(fields["verdict"])
    fields["eager"] = tuple(fields.get("eager", ()))  # type: ignore[arg-type]
    return Outcome(case, **fields)  # type: ignore[arg-type]


def read(paths: Iterable[Path]) -> dict[Case, Outcome]:
    """The outcomes of several files; of a case that is in two, the later file's."""
    known: dict[Case, Outcome] = {}
    for path in paths:
        known.update(OutcomeFile(path).known)
    return known

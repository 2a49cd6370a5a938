"""The order in which a sweep takes its cases: all operators first, then all dtypes, then more and more samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from opinfo.outcomes import Case
from opinfo.tasks import Task

MAIN = "float32"


@dataclass(frozen=True)
class Stage:
    """Samples `first` to `last` (exclusive), of the main dtype of each operator or of its others."""

    name: str
    main: bool
    dynamic: bool
    first: int
    last: int


def stages(samples: int, static: bool, dynamic: bool) -> list[Stage]:
    """The stages of a sweep of at most `samples` samples of each operator and dtype."""
    found: list[Stage] = []
    for first, last in _rounds(samples):
        several = f"sample {first}" if last == first + 1 else f"samples {first} to {last - 1}"
        for changing in (False, True):
            for main in (True, False):
                if dynamic if changing else static:
                    which = "main dtype" if main else "other dtypes"
                    name = f"{several}, {which}, {'dynamic' if changing else 'static'}"
                    found.append(Stage(name, main, changing, first, last))
    return found


def _rounds(samples: int) -> Iterator[tuple[int, int]]:
    first, last = 0, 1
    while first < samples:
        yield first, min(last, samples)
        first, last = last, 4 * last


def tasks(
    stage: Stage,
    operators: Sequence[str],
    dtypes: Callable[[str], list[str]],
    device: str,
    known: Collection[Case],
    ends: dict[tuple[str, str], int],
) -> Iterator[Task]:
    """The tasks of one stage, without the cases that are `known` and those beyond the known number of samples."""
    for operator in operators:
        own = dtypes(operator)
        main = MAIN if MAIN in own else own[0] if own else None
        for dtype in own:
            if (dtype == main) != stage.main:
                continue
            last = min(stage.last, ends.get((operator, dtype), stage.last))
            missing = tuple(
                index for index in range(stage.first, last) if Case(operator, dtype, index, stage.dynamic) not in known
            )
            if missing:
                yield Task(operator, dtype, missing, stage.dynamic, device)

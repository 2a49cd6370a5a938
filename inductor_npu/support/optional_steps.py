"""Steps of the compiler that a graph can be compiled without: rewrites, lowerings to kernels of ours, plans of kernels,
their indices and order.

An error that leaves a step carries the step. So the next attempt at the graph (lowering/attempts.py) can do without it,
and the warning can name it. `STEPS` lists all of them, which is how a test plants an error into each.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ATTRIBUTE = "_inductor_npu_step"


class Kind(enum.Enum):
    """What does a step's work where the step is left out. The value is the word for such a step in messages."""

    GRAPH_PASS = "graph pass"  # nothing: the graph stays as it is
    TEMPLATE = "template"  # Inductor's own lowering, mostly a call of the library
    PLAN = "plan of kernels"  # eager operators
    INDICES = "simplification of indices"  # nothing: indices stay as Inductor has them
    ORDER = "order of kernels"  # Inductor's order


@dataclass
class Step:
    """One step. `function` does it; a test puts another function there."""

    kind: Kind
    name: str
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


STEPS: dict[str, Step] = {}


def optional_step(kind: Kind, name: str) -> Callable[[_Function], _Function]:
    """Makes a function the step `name`: an error that leaves it carries the step, the innermost if several do."""

    def as_step(function: _Function) -> _Function:
        step = STEPS[name] = Step(kind, name, function)

        @functools.wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            try:
                return step.function(*args, **options)
            except Exception as error:
                if step_of(error) is None:
                    setattr(error, _ATTRIBUTE, step)
                raise

        return run  # type: ignore[return-value]

    return as_step


def step_of(error: BaseException) -> Step | None:
    """The step that `error`, or an error behind it, left; None if it left none."""
    return next((step for each in causes(error) if (step := getattr(each, _ATTRIBUTE, None)) is not None), None)


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from, or because of."""
    seen = set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__

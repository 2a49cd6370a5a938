"""Which attempt at the graph is being compiled: what it leaves out, and why (lowering/attempts.py makes them)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One attempt at a graph. `leaves_out` names what it does without, "" for the first one; `why` is the error of the
    attempt before. `allows_operators`: loops without a plan run as eager operators.
    """

    leaves_out: str = ""
    why: str = ""
    allows_operators: bool = False


_current = Attempt()


def current() -> Attempt:
    """The attempt that is under way. Inductor compiles one graph of a process at a time."""
    return _current


@contextlib.contextmanager
def under_way(attempt: Attempt) -> Iterator[None]:
    """Context of `attempt`."""
    global _current
    before, _current = _current, attempt
    try:
        yield
    finally:
        _current = before

"""Observes launches: an observer is called in place of each launch, with the kernel's source and arguments.

Observation is off by default, and then costs nothing: only kernels that are loaded while an observer is registered get
a function in front of their launcher. A kernel loaded earlier is not observed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...triton_npu.launcher import FIXED_ARGUMENTS

Grid = tuple[int, int, int]
# Called as (source, options, grid, arguments, launch): Triton's ASTSource or IRSource of the kernel; what it asks of
# Ascend's compiler; each run-time argument by its name in the source's signature (constants included where this Triton
# passes them); the launch, which the observer calls once. A launch is asynchronous: `torch.npu.synchronize()` waits for
# what it writes.
Observer = Callable[[Any, dict[str, Any], Grid, dict[str, Any], Callable[[], None]], None]

GRID_AXES = 3

_observer: Observer | None = None
_paused = False


@contextlib.contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Calls `observer` for each launch of each kernel that is loaded inside the `with` block.

    Launches that only serve to time candidates (Triton's autotuner) are not the program's and are left out. Raises
    RuntimeError inside another `observe`.
    """
    global _observer
    if _observer is not None:
        raise RuntimeError("launches are being observed already; end the surrounding observe() first")
    _observer = observer
    try:
        yield
    finally:
        _observer = None


def is_observing() -> bool:
    """Whether a kernel that is loaded now gets an observer."""
    return _observer is not None


def observed(launcher: Any, source: Any, options: dict[str, Any]) -> Any:
    """`launcher`, or where someone observes a function in front of it that tells the observer. `options` are those
    that the kernel passes to Ascend's compiler.
    """
    if _observer is None:
        return launcher
    names = tuple(source.signature)

    def launch_observed(*args: Any) -> None:
        if _observer is None or _paused:
            launcher(*args)
            return
        grid: Grid = args[:GRID_AXES]
        arguments = dict(zip(names, args[FIXED_ARGUMENTS:], strict=True))
        _observer(source, options, grid, arguments, functools.partial(launcher, *args))

    return launch_observed


def unobserved(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose launches no observer sees. A kernel that is loaded by it can be observed afterwards."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        global _paused
        outer, _paused = _paused, True
        try:
            return function(*args, **kwargs)
        finally:
            _paused = outer

    return run

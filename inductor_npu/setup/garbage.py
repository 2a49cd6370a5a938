"""Defers full garbage collections until a compile is over.

A full collection visits every object of the process, millions once torch is imported. A compile creates so many more
that Python starts several collections, which take some 4% of the time and could free only cycles of the current
compile. Young objects are collected as usual. After the compile, Python collects as it normally would.
"""

from __future__ import annotations

import gc
from typing import Any

# A full collection is due after so many of the one below it: never.
_NEVER = 1_000_000_000

_wanted: int | None = None  # what the process has in its place


def wait_for_compiles() -> None:
    """Has full collections wait for each compile from now on, until `torch._dynamo.reset()`, in a process that uses an
    NPU.
    """
    from torch._dynamo.callback import on_compile_end, on_compile_start

    on_compile_start(_begin)
    on_compile_end(_end)


def _begin(_: Any) -> None:
    import torch

    global _wanted
    module = getattr(torch, "npu", None)
    young, middle, full = gc.get_threshold()
    if module is not None and module.is_initialized() and full != _NEVER:
        _wanted = full
        gc.set_threshold(young, middle, _NEVER)


def _end(_: Any) -> None:
    global _wanted
    young, middle, full = gc.get_threshold()
    if _wanted is not None and full == _NEVER:  # else somebody has set another meanwhile
        gc.set_threshold(young, middle, _wanted)
    _wanted = None

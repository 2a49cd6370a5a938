"""Keeps instrumented kernels apart from ordinary ones in Triton, by its official knob."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def instrumentation_mode(mode: str) -> Iterator[None]:
    """Kernels that the user launches inside are taken from those of `mode` only, and compiled for it where there are
    none. Triton before 3.6 knows no modes: nothing changes there.
    """
    try:
        from triton import knobs

        before = knobs.compilation.instrumentation_mode
    except (ImportError, AttributeError):
        yield
        return
    knobs.compilation.instrumentation_mode = mode
    try:
        yield
    finally:
        knobs.compilation.instrumentation_mode = before

"""Lowerings of operators that npu treats in its own way, dispatched by device so that graphs for other devices never
change.
"""

from __future__ import annotations


def install() -> None:
    """Adds this package's lowerings to Inductor's. There are none yet: every operator takes Inductor's own."""

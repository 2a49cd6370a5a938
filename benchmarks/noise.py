"""Whether other programs ran meanwhile: OpenMP on a busy machine is far slower; a ratio to it says nothing."""

from __future__ import annotations

import os
from pathlib import Path

# Above this share of the machine's processor time, results are not written into the documentation.
LARGEST_SHARE = 0.05


class OtherPrograms:
    """Measures, from its construction on, the processor time that other programs took."""

    def __init__(self) -> None:
        self._start = _all_and_busy(), _ours()

    def share(self) -> float:
        """Other programs' share of the machine's processor time so far, from 0 to 1."""
        (all_before, busy_before), ours_before = self._start
        everything, busy = _all_and_busy()
        others = (busy - busy_before) - (_ours() - ours_before)
        return max(0.0, others / max(everything - all_before, 1e-9))


def _all_and_busy() -> tuple[float, float]:
    """Seconds of processor time since the machine started, and how many of them were not idle (see proc(5))."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(fields) / ticks, (sum(fields) - idle) / ticks


def add_ours(seconds: float) -> None:
    """Processor time of a process that works for this one, but is the child of another."""
    global _of_others_children
    _of_others_children += seconds


_of_others_children = 0.0


def _ours() -> float:
    """Processor seconds of this process, of those that it started and waited for, and of those that it was told of."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _of_others_children

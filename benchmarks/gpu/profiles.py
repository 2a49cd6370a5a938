"""Where a device's time goes: what it ran during one turn of a case, by the name of the kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from torch.autograd import DeviceType
from torch.profiler import profile, supported_activities

from benchmarks.gpu.measuring import Turn

MOST = 30  # lines of a table
WIDTH = 110  # characters of a kernel's name


class Row(NamedTuple):
    """Kernels of one name: how often one ran, and the microseconds of all."""

    name: str
    count: int
    microseconds: float


def taken(turn: Turn) -> list[Row]:
    """What ran on the GPU during `turn`, the most time first; without a GPU on the embedded NPU, or on the CPU."""
    with profile(activities=supported_activities(), acc_events=False) as profiler:
        turn()
    counts: dict[tuple[DeviceType, str], int] = defaultdict(int)
    times: dict[tuple[DeviceType, str], float] = defaultdict(float)
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None, "it has ended"
    for event in profiler.profiler.kineto_results.events():
        key = event.device_type(), event.name()
        counts[key] += 1
        times[key] += event.duration_ns() / 1e3
    devices = {device for device, _ in counts}
    # Where the embedded NPU's time line notes kernels too, the GPU's own is what counts.
    chosen = next((each for each in (DeviceType.CUDA, DeviceType.PrivateUse1) if each in devices), DeviceType.CPU)
    rows = [Row(key[1], count, times[key]) for key, count in counts.items() if key[0] == chosen]
    return sorted(rows, key=lambda row: -row.microseconds)


def table(title: str, rows: Iterable[Row]) -> str:
    """In Markdown: the part of the time, how often a kernel ran, its mean time in microseconds, its name."""
    rows = list(rows)
    total = sum(row.microseconds for row in rows) or 1.0
    lines = [f"### {title}: {total:.0f} us", "", "| part | runs | us each | kernel |", "| --- | --- | --- | --- |"]
    for name, count, microseconds in rows[:MOST]:
        shown = name.replace("|", "\\|")[:WIDTH]
        lines.append(f"| {microseconds / total:.1%} | {count} | {microseconds / count:.1f} | `{shown}` |")
    return "\n".join([*lines, ""])

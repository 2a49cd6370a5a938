"""Times a callable on the device, for choosing between candidate kernels."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Time spent on one candidate, in milliseconds, where the caller names none.
DEFAULT_REPEAT_MS = 40

_benchmarking = False


def is_benchmarking() -> bool:
    """Whether what runs now is timed: a candidate that is tried, not work of the program."""
    return _benchmarking


@contextmanager
def benchmarking() -> Iterator[None]:
    """What runs inside is a candidate that is tried."""
    global _benchmarking
    outer, _benchmarking = _benchmarking, True
    try:
        yield
    finally:
        _benchmarking = outer


def benchmark_npu(
    benchmarker: Any, run: Callable[[], Any], *, warmup: int = 0, rep: int = DEFAULT_REPEAT_MS, **_: Any
) -> float:
    """The median time of `run` in milliseconds, over about `rep` milliseconds after one run that warms up.

    `run` queues work on the current stream; each run is timed with a pair of events, so that Python between the runs
    is not counted. `warmup` (milliseconds) is accepted because Inductor passes it; one run is enough on this device,
    whose clocks do not ramp.
    """
    with benchmarking():
        run()
        torch.npu.synchronize()
        first = _time_once(run)
        repeats = max(3, min(100, int(rep / max(first, 1e-3))))
        return statistics.median([first, *(_time_once(run) for _ in range(repeats - 1))])


def _time_once(run: Callable[[], Any]) -> float:
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)

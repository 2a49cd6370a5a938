"""How time is measured: the sides take turns, so that a slow moment of the machine affects all of them, and medians are
compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Side = tuple[Callable[[], Any], str]


def median_seconds(sides: Mapping[str, Side], rounds: int, seconds_per_side: float) -> dict[str, float]:
    """Median seconds of one call for each side, a function and the device that it leaves work on.

    In each of `rounds` rounds every side runs once, in turn: as many calls as take about a `rounds`-th of
    `seconds_per_side`, then a wait for the device.
    """
    calls = {name: _calls_for(side, seconds_per_side / rounds) for name, side in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            times[name].append(_seconds(sides[name], calls[name]))
        order.append(order.pop(0))
    return {name: statistics.median(values) for name, values in times.items()}


def _calls_for(side: Side, seconds: float) -> int:
    _seconds(side, 2)  # the first calls fill caches and start threads
    return max(1, round(seconds / _seconds(side, 1)))


def _seconds(side: Side, calls: int) -> float:
    function, device = side
    function()  # the other sides' threads have gone to sleep and their data has left the cache
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronize(device)
    return (time.perf_counter() - start) / calls


def synchronize(device: str) -> None:
    """Waits until all work queued on `device` is done."""
    torch.get_device_module(device).synchronize()


def geometric_mean(values: list[float]) -> float:
    """The n-th root of the product: the mean that fits ratios."""
    return statistics.geometric_mean(values)

"""Runs a function in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def run_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs `work(0)` to `work(count - 1)`, which begin together, and raises the first exception that one raises."""
    together = threading.Barrier(count)

    def run(index: int) -> None:
        together.wait()
        work(index)

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(run, index) for index in range(count)]
    for thread in running:
        thread.result()

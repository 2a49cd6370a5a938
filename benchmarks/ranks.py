"""Processes that measure together, as ranks of a job on this host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import noise
from tests.distributed.ranks import Ranks


@contextmanager
def job(size: int) -> Iterator[Ranks]:
    """As many processes with one thread each. None stays, and what they took is no noise of other programs."""
    ranks = Ranks(size)
    try:
        yield ranks
        noise.add_ours(sum(ranks.run(time.process_time)))
    finally:
        ranks.stop()

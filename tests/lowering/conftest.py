"""Every test compiles from scratch: graphs, caches and counters of one test are not there in the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield

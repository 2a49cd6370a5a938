"""Builds the device before the first test, so that no test's time limit pays for it."""

from __future__ import annotations

import pytest

from inductor_npu.simulator.device import build


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    build.build()

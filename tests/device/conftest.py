"""Builds the device before the first test, so that no test's time limit pays for it, and asks for two devices."""

from __future__ import annotations

import os

import pytest

from inductor_npu.device import build

os.environ["INDUCTOR_NPU_SIM_DEVICES"] = "2"
if (loaded := build.loaded()) is not None and not loaded.is_open():
    loaded.configure(**build.settings())  # `import torch` has loaded it, with one device


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    build.build()

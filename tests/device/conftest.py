"""Builds the device before the first test, so that no test's time limit pays for it; asks for two devices; frees
memory that is not the tests'.
"""

from __future__ import annotations

import os

import pytest
import torch

from inductor_npu import providers
from inductor_npu.device import build

os.environ["INDUCTOR_NPU_SIM_DEVICES"] = "2"
if (loaded := build.loaded()) is not None and not loaded.is_open():
    loaded.configure(**build.settings())  # `import torch` has loaded it, with one device


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    build.build()


@pytest.fixture(scope="module")
def no_workspaces() -> None:
    """Frees what PyTorch keeps for CUDA's library: 32 MiB for each thread and stream that multiplied matrices."""
    if providers.current_provider() is providers.CUDA:
        torch._C._cuda_clearCublasWorkspaces()

"""What tests of generated code need: every graph compiled, and Ascend's compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from inductor_npu.ascend.environment import AscendEnvironment, find_environment


@pytest.fixture
def every_graph_is_compiled() -> Iterator[None]:
    """A graph from Inductor's cache, left there by another test or an earlier run, would write no kernel."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


@pytest.fixture
def ascend() -> AscendEnvironment:
    return find_environment()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone: compilations are not kept by what `device_functions` says."""
    torch.empty(1).npu()  # the device itself is found in the user's
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path))
    return tmp_path

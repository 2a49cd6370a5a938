"""What tests of Ascend's compiler share."""

from __future__ import annotations

from pathlib import Path

import pytest

from inductor_npu.ascend.environment import AscendEnvironment, find_environment


@pytest.fixture(scope="session")
def ascend() -> AscendEnvironment:
    """The environment of Ascend's compiler."""
    return find_environment()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test alone."""
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"

"""Knobs: typed, settable from the environment or for a test, and part of the cache key."""

from __future__ import annotations

import inductor_npu.config as config
from inductor_npu import identity
from tests.processes import run_python


def test_strict_comes_from_the_environment() -> None:
    code = "import inductor_npu.config as c; print(c.strict)"
    assert run_python(code, INDUCTOR_NPU_STRICT="1").lines() == ["True"]
    assert run_python(code).lines() == ["False"]


def test_patch_is_undone() -> None:
    before = config.pointwise_tile
    with config.patch(pointwise_tile=before * 2):
        assert config.pointwise_tile == before * 2
    assert config.pointwise_tile == before


def test_every_knob_is_part_of_the_cache_key() -> None:
    portable = config.save_config_portable()
    assert {"strict", "pointwise_tile", "reduction_tile", "persistent_row", "toolchain"} <= portable.keys()


def test_identity_names_triton_and_the_target() -> None:
    assert "triton 3." in identity.toolchain_identity()
    assert "Ascend910B3" in identity.toolchain_identity()


def test_identity_changes_with_the_target(monkeypatch) -> None:
    from inductor_npu import providers
    from inductor_npu.target import NpuTarget

    before = identity.toolchain_identity()
    other = NpuTarget("Other", 1, 2, 3 << 10, 1, 1, 1, 1, 1 << 30, 1.0)
    monkeypatch.setattr(providers, "current_target", lambda: other)
    assert identity.toolchain_identity() != before

"""Knobs: typed, settable from the environment or for a test, and part of the cache key."""

from __future__ import annotations

import inductor_npu.config as config
from tests.processes import run_forked


def test_strict_comes_from_the_environment() -> None:
    code = "import inductor_npu.config as c; print(c.strict)"
    assert run_forked(code, INDUCTOR_NPU_STRICT="1").lines() == ["True"]
    assert run_forked(code).lines() == ["False"]


def test_patch_is_undone() -> None:
    before = config.pointwise_tile
    with config.patch(pointwise_tile=before * 2):
        assert config.pointwise_tile == before * 2
    assert config.pointwise_tile == before


def test_every_knob_is_part_of_the_cache_key() -> None:
    portable = config.save_config_portable()
    assert {"strict", "pointwise_tile", "reduction_tile", "toolchain"} <= portable.keys()


def test_what_decides_no_code_is_no_part_of_the_cache_key() -> None:
    assert "cache" not in config.save_config_portable(ignore_private_configs=False)

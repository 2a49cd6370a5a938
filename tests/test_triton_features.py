"""The features without which tests are skipped: upstream's Triton has every one, so that nothing is skipped there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.triton_features import FEATURES, has, ttir


def _is_ascends() -> bool:
    try:
        return bool(version("triton-ascend"))
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(_is_ascends(), reason="Ascend's Triton lacks some")
@pytest.mark.parametrize("name", FEATURES)
def test_upstreams_triton_has_every_feature(name: str) -> None:
    assert has(name)


def test_a_kernel_becomes_text() -> None:
    text = ttir("@triton.jit\ndef kernel(p):\n    tl.store(p, 1.0)\n", {"p": "*fp32"})
    assert "tt.store" in text and "@kernel" in text

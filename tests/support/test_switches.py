"""Environment variables that switch something on."""

import pytest

from inductor_npu.support.switches import is_on


@pytest.mark.parametrize("text", ["1", "true", "ON", " yes "])
def test_set_to_something_is_on(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_CHECKED", text)

    assert is_on("INDUCTOR_NPU_CHECKED")


@pytest.mark.parametrize("text", [None, "", "0", "false", "Off", " no "])
def test_what_means_off_is_off(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_CHECKED", raising=False)
    if text is not None:
        monkeypatch.setenv("INDUCTOR_NPU_CHECKED", text)

    assert not is_on("INDUCTOR_NPU_CHECKED")

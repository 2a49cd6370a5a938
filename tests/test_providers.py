"""Who provides the device: the environment decides, and what it cannot decide is an error that says what to write."""

from __future__ import annotations

import pytest

from inductor_npu import providers
from inductor_npu.errors import ProviderMissingError, UnknownProviderError, UnknownTargetError


def test_none_leaves_torch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "none")
    assert providers.select_provider() is None


def test_explicit_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", " Simulator ")
    assert providers.select_provider() is providers.SIMULATOR


def test_default_on_a_machine_without_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_PROVIDER", raising=False)
    monkeypatch.setattr(providers, "_torch_has_another_accelerator", lambda: False)
    monkeypatch.setattr(providers.Provider, "is_installed", lambda self: self is providers.SIMULATOR)
    assert providers.select_provider() is providers.SIMULATOR


def test_default_prefers_real_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_PROVIDER", raising=False)
    monkeypatch.setattr(providers.Provider, "is_installed", lambda self: True)
    assert providers.select_provider() is providers.ASCEND


def test_default_leaves_a_machine_with_another_accelerator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_PROVIDER", raising=False)
    monkeypatch.setattr(providers, "_torch_has_another_accelerator", lambda: True)
    monkeypatch.setattr(providers.Provider, "is_installed", lambda self: self is providers.SIMULATOR)
    assert providers.select_provider() is None


def test_unknown_provider_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "quantum")
    with pytest.raises(UnknownProviderError, match=r"'quantum'.*ascend, simulator, none"):
        providers.select_provider()


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "ascend")
    monkeypatch.setattr(providers.Provider, "is_installed", lambda self: self is not providers.ASCEND)
    with pytest.raises(ProviderMissingError, match="torch_npu"):
        providers.select_provider()


def test_target_is_ascend_910b3_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_TARGET", raising=False)
    assert providers.current_target().name == "Ascend910B3"


def test_unknown_target_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "Ascend999")
    with pytest.raises(UnknownTargetError, match=r"'Ascend999'.*Ascend910B3"):
        providers.current_target()

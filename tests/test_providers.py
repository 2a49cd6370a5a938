"""Who provides the device: the environment decides, and what it cannot decide is an error that says what to write."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from inductor_npu import providers
from inductor_npu.errors import (
    DeviceIsBuiltError,
    NoPackagesError,
    NpuWarning,
    ProviderMissingError,
    UnknownProviderError,
    UnknownTargetError,
)
from inductor_npu.simulator.triton_backend import observer


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
    with pytest.raises(UnknownProviderError, match=r"'quantum'.*ascend, simulator, cuda, none"):
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


# ---- what a provider names, and nothing above imports


@pytest.fixture
def on_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose device torch_npu provides. It need not be installed."""
    monkeypatch.setattr(providers, "select_provider", lambda: providers.ASCEND)


def test_modes_that_change_kernels_are_the_embedded_npus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_CHECKED", "0")
    monkeypatch.setenv("INDUCTOR_NPU_RECORD", "1")
    assert providers.compile_modes() == {"INDUCTOR_NPU_CHECKED": "0", "INDUCTOR_NPU_RECORD": "1"}


@pytest.mark.usefixtures("on_ascend")
def test_on_ascend_no_mode_changes_kernels_and_nobody_observes() -> None:
    assert providers.compile_modes() == {} and not providers.is_observed()


@pytest.mark.usefixtures("on_ascend")
def test_a_device_that_its_provider_brings_is_not_built() -> None:
    with pytest.raises(DeviceIsBuiltError, match=r"ascend.*INDUCTOR_NPU_PROVIDER=simulator"):
        providers.device_runtime()


def test_launches_are_observed_while_somebody_does() -> None:
    assert not providers.is_observed()
    with observer.observe(lambda source, options, grid, arguments, launch: launch()):
        assert providers.is_observed()


def test_the_embedded_npus_errors_stay_what_they_are() -> None:
    assert providers.known_error(ValueError("a reason"), "f") is None


def _as_one_line(error: Exception, kernel: str) -> Exception:
    return RuntimeError(f"{kernel}: {error}")


def test_a_provider_knows_the_errors_of_its_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = dataclasses.replace(providers.SIMULATOR, known_error=f"{__name__}:{_as_one_line.__name__}")
    monkeypatch.setattr(providers, "select_provider", lambda: provider)
    assert str(providers.known_error(ValueError("a reason"), "f")) == "f: a reason"


@pytest.mark.usefixtures("on_ascend")
def test_on_ascend_a_module_warns_of_another_backend_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._inductor, "config", SimpleNamespace(npu_backend="mlir"))
    with pytest.warns(NpuWarning, match="'mlir'"):
        exec("\n".join(providers.module_lines()))

    monkeypatch.setattr(torch._inductor, "config", SimpleNamespace(npu_backend="default"))
    assert providers.module_lines() == ()


def test_without_torch_npu_a_module_has_no_lines_of_the_provider() -> None:
    assert providers.module_lines() == ()


@pytest.mark.parametrize("asked", [providers.package_runtime, providers.packaged_kernels])
def test_a_provider_without_packages_is_named(asked, monkeypatch: pytest.MonkeyPatch):
    bare = providers.Provider("bare", "bare", raw_stream="bare:stream", interface="bare:Interface")
    monkeypatch.setattr(providers, "current_provider", lambda: bare)
    with pytest.raises(NoPackagesError, match="the provider of device npu, bare, neither makes nor loads packages"):
        asked()

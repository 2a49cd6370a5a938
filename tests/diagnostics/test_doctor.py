"""`inductor-npu doctor` says what is there, what is off, and what to do about it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inductor_npu.cli import app
from inductor_npu.diagnostics.doctor import probe
from inductor_npu.diagnostics.doctor.diagnosis import Finding, diagnose
from inductor_npu.diagnostics.doctor.table import render
from inductor_npu.support import cann, host_compiler, terminal

HEALTHY = {
    "torch": ["2.13.0+cpu", "/there/torch/__init__.py"],
    "provider": "simulator",
    "devices": 1,
    "chip": "Ascend910B3",
    "target": "Ascend910B3",
    "generates code": "inductor_npu.codegen.scheduling.npu_scheduling.NpuScheduling",
    "triton": ["3.6.0", "/there/triton/__init__.py", ["npu"]],
    "kernel": True,
}


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Finding]]:
    """Diagnoses what a process found: HEALTHY up to `until`, with `changed` facts; findings by what they are about."""

    def diagnosed(until: str = "kernel", failure: str = "", **changed: object) -> dict[str, Finding]:
        names = list(HEALTHY)
        seen = {name: HEALTHY[name] for name in names[: names.index(until) + 1]}
        found = probe.Found({**seen, **{name.replace("_", " "): value for name, value in changed.items()}}, failure)
        monkeypatch.setattr(probe, "run", lambda: found)
        return {finding.about.strip(): finding for finding in diagnose()}

    return diagnosed


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Has these distributions installed, in these versions, or not (None)."""
    of = importlib.metadata.version

    def version(name: str) -> str:
        given = versions.get(name.replace("-", "_"), "")
        if given is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return given or of(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def fatal(findings: dict[str, Finding]) -> list[str]:
    return [about for about, finding in findings.items() if finding.fatal]


@pytest.mark.slow
def test_this_machine_is_healthy() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "inductor-npu generates the code for npu." in result.output
    assert "NpuScheduling" in result.output


def test_no_name_or_path_is_cut_short() -> None:
    path = "/a/folder" * 20
    shown = terminal.as_text(render([Finding("torch", path)]), width=60)
    assert path in "".join(shown.split())


def test_what_is_healthy_needs_no_advice(looked: Callable[..., dict[str, Finding]]) -> None:
    findings = looked()
    assert not fatal(findings)
    assert not [finding for finding in findings.values() if finding.advice]
    assert findings["code is generated for"].found == "Ascend910B3"


def test_no_provider_is_wanted(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "none")
    findings = looked(until="devices", devices=0)
    assert "unset INDUCTOR_NPU_PROVIDER" in findings["provider of npu"].advice
    assert "provider of npu" in fatal(findings)


def test_an_unknown_provider(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "ascned")
    assert "ascend, simulator, cuda, none" in looked()["provider of npu"].advice


def test_backends_are_not_loaded(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    findings = looked(until="devices", devices=0)
    assert "unset it" in findings["TORCH_DEVICE_BACKEND_AUTOLOAD"].advice
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD" in fatal(findings)


def test_two_tritons(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, triton="3.6.0", triton_ascend="3.2.0", pytorch_triton=None)
    finding = looked()["Triton"]
    assert "pip uninstall triton-ascend" in finding.advice and finding.fatal


def test_no_triton(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, triton=None, triton_ascend=None, pytorch_triton=None)
    assert looked(until="target", failure="no Triton")["Triton"].advice == "pip install triton==3.6.0"


def test_an_untested_torch(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch="2.99.0")
    finding = looked()["torch"]
    assert "outside the tested range" in finding.advice and not finding.fatal


def test_torch_does_not_import(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    findings = looked(until="torch", failure="ImportError: libtorch.so")
    monkeypatch.setattr(probe, "run", lambda: probe.Found({}, "ImportError: libtorch.so"))
    findings = {finding.about: finding for finding in diagnose()}
    assert findings["torch"].advice == "ImportError: libtorch.so" and findings["torch"].fatal


def test_another_backend_of_inductor_answers(looked: Callable[..., dict[str, Finding]]) -> None:
    findings = looked(generates_code="torch_npu._inductor.codegen.npu_combined_scheduling.NPUCombinedScheduling")
    assert fatal(findings) == ["Inductor's backend for npu"]


def test_a_kernel_that_fails_says_its_error(looked: Callable[..., dict[str, Finding]]) -> None:
    findings = looked(until="triton", failure="RuntimeError: no space left")
    assert findings["a compiled function"].advice == "RuntimeError: no space left"
    assert fatal(findings) == ["a compiled function"]


def test_wrong_values_are_to_be_reported(looked: Callable[..., dict[str, Finding]]) -> None:
    findings = looked(kernel=False)
    assert "report" in findings["a compiled function"].advice
    assert fatal(findings) == ["a compiled function"]


def test_no_compiler(looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_compiler, "find", lambda: None)
    assert "apt install g++" in looked()["C++ compiler"].advice


def test_a_cache_that_cannot_be_written(
    looked: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "INDUCTOR_NPU_CACHE_DIR" in looked()["cache"].advice


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("version.cfg", "# 1.0\nruntime_running_version=[8.2.RC1:8.2.RC1]"),
        ("ascend_toolkit_install.info", "version=8.3.0\n"),
    ],
)
def test_cann_says_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str) -> None:
    tmp_path.joinpath(name).write_text(text)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert cann.folder() == tmp_path
    version = cann.version(tmp_path)
    assert version is not None and version.startswith("8.")

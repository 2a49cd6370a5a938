"""The command inductor-npu: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from inductor_npu.ascend import checking, environment
from inductor_npu.ascend.execute import Agreement, RunVerdict
from inductor_npu.cli import app
from inductor_npu.errors import AscendPlatformError
from tests.ascend.report.examples import ELEMENT, REFUSED, SCALAR, UNREAD, VECTOR, report, row


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch):
    """Makes `check` find a given report; returns what it was called with."""

    def set_answer(found) -> dict:
        called = {}

        def check_program(program, arguments, on_done, **options):
            called.update(program=program, arguments=arguments, **options)
            on_done("Compiling", 0, 2)
            on_done("Compiling", 2, 2)
            return found

        monkeypatch.setattr(checking, "check_program", check_program)
        return called

    return set_answer


def test_program_options_and_arguments_reach_the_check(answer, tmp_path: Path):
    called = answer(report(VECTOR))
    result = call(
        "--target", "Ascend910B1", "--jobs", 2, "--keep", tmp_path, "train.py", "--epochs", "3", "--target", "x"
    )
    assert result.exit_code == 0 and "fast_kernel" in result.output
    assert called == {
        "program": "train.py", "arguments": ["--epochs", "3", "--target", "x"], "target": "Ascend910B1", "run": False,
        "backward": True, "is_module": False, "jobs": 2, "folder": tmp_path,
    }  # fmt: skip
    called = answer(report(VECTOR))
    assert call("--run", "--no-grad", "-m", "package.main", "a").exit_code == 0
    assert called["program"] == "package.main" and called["is_module"] and called["arguments"] == ["a"]
    assert called["run"] and not called["backward"]


@pytest.mark.parametrize(
    ("rows", "fail_on", "status"),
    [
        ((VECTOR, SCALAR), None, 0),
        ((VECTOR, REFUSED), None, 3),
        ((VECTOR, REFUSED), "never", 0),
        ((VECTOR, SCALAR), "scalar", 3),
        ((VECTOR, UNREAD), "scalar", 3),
        ((VECTOR, ELEMENT), "scalar", 0),
        ((VECTOR, ELEMENT), "element-dma", 3),
        ((VECTOR, SCALAR), "element-dma", 3),
        ((VECTOR,), "element-dma", 0),
    ],
)
def test_the_exit_status_is_3_for_verdicts_that_fail_on_names(answer, rows, fail_on, status):
    answer(report(*rows))
    assert call(*(["--fail-on", fail_on] if fail_on else []), "train.py").exit_code == status


def test_wrong_results_fail(answer):
    differs = Agreement(
        "k", "key", RunVerdict.DIFFERS, "out[3] is 1.0 on the embedded NPU and 2.0 by Ascend's compiler"
    )
    answer(report(row("k", "vector", agreement=differs)))
    result = call("--run", "train.py")
    assert result.exit_code == 3 and "1 kernel with wrong results" in result.output and "out[3] is 1.0" in result.output


def test_a_program_that_fails_passes_its_status_on(answer):
    answer(report(VECTOR, status=7))
    result = call("train.py")
    assert result.exit_code == 7 and "checked until then" in result.output and "fast_kernel" in result.output
    answer(report(VECTOR, status=-9))
    assert call("train.py").exit_code == 137


def test_a_program_without_kernels_is_status_1(answer):
    answer(report(advice="Compile the model."))
    result = call("train.py")
    assert result.exit_code == 1 and "Compile the model." in result.output


def test_json_and_html_are_written(answer, tmp_path: Path):
    answer(report(VECTOR))
    assert call("--json", tmp_path / "r.json", "--html", tmp_path / "r.html", "train.py").exit_code == 0
    assert json.loads((tmp_path / "r.json").read_text())["kernels"][0]["kernel"] == "fast_kernel"
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_program_it_says_what_to_give():
    result = call()
    assert result.exit_code == 2 and "path.py::function" in result.output


def test_without_ascends_compiler_it_names_the_command_that_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    monkeypatch.setattr(environment, "_PACKAGE", tmp_path / "inductor_npu")
    monkeypatch.setattr(environment, "_has_compiler", lambda found: False)
    result = call("train.py")
    assert result.exit_code == 2 and "make ascend-env" in result.output and "Traceback" not in result.output


def test_on_another_platform_it_says_which_are_supported(monkeypatch: pytest.MonkeyPatch):
    def find_environment():
        environment._check_platform("darwin", "arm64")

    monkeypatch.setattr(checking, "find_environment", find_environment)
    with pytest.raises(AscendPlatformError):
        find_environment()
    result = call("train.py")
    assert result.exit_code == 2 and "x86_64" in result.output and "darwin" in result.output
    assert "Traceback" not in result.output


@pytest.mark.ascend
def test_an_unknown_chip_is_refused_before_the_program_runs():
    result = call("--target", "Ascend999", "there_is_no_such_file.py")
    assert result.exit_code == 2 and "'Ascend999'" in result.output and "Ascend910B3" in result.output


PROGRAM = """
import sys, torch, triton, triton.language as tl

@triton.jit
def reversed_kernel(source, target, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(target + i, tl.load(source + (N - 1 - i)))

@triton.jit
def crashing_kernel(source, target, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(target + r * N + c, tl.load(source + c + 0 * r))

x = torch.randn(32, 32, device="npu")
out = torch.empty_like(x)
reversed_kernel[(1,)](x, out, 32)
crashing_kernel[(1,)](x, out, 32)
print("sum", torch.compile(lambda x: torch.nn.functional.gelu(x).sum())(x).shape)
"""


@pytest.mark.ascend
@pytest.mark.slow
def test_a_program_end_to_end_with_a_kernel_that_the_compiler_crashes_on(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "inductor_npu.cli", "check", "--json", "r.json", "--html", "r.html", "program.py"]
    cache = {"INDUCTOR_NPU_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "160"}
    found = {environment.VARIABLE: str(environment.find_environment().python)}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **found, **cache}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("sum torch.Size([])") and "program.py on Ascend910B3" in done.stdout
    data = json.loads((tmp_path / "r.json").read_text())
    kernels = {kernel["kernel"]: kernel for kernel in data["kernels"]}
    assert kernels["reversed_kernel"]["verdict"] == "scalar"
    crashed = kernels["crashing_kernel"]
    assert crashed["verdict"] == "refused" and crashed["refusal"]["crashed"]
    assert (Path(crashed["refusal"]["reproduction"]) / "kernel.py").exists()
    (fused,) = [kernel for kernel in data["kernels"] if "aten.gelu" in kernel["operators"]]
    assert fused["lines"][0].startswith("program.py:") and fused["ub_bytes"] > 0 and fused["bytes_least"] >= 4096

"""What `make` does on a fresh machine, from its own plan (`make --dry-run`): nothing is set up here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def plan_of(target: str, environment: Path) -> str:
    """The commands of `make target` where its virtual environment, `environment`, does not exist yet."""
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={environment}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("target", "work"),
    [("demo", "-m examples.demo"), ("test", "-m pytest"), ("bench", "-m benchmarks")],
)
def test_each_target_sets_up_what_it_needs_first(target: str, work: str, tmp_path: Path) -> None:
    plan = plan_of(target, tmp_path / "venv")
    steps = [
        "-m venv",
        "/whl/cpu",
        "-r requirements.txt",
        "--editable .",
        "-m inductor_npu.simulator.device",
        work,
    ]
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)
    assert f"{tmp_path / 'venv'}/bin/python {work}" in plan


def test_lint_runs_linter_formatter_type_checker_and_house_rules(tmp_path: Path) -> None:
    plan = plan_of("lint", tmp_path / "venv")
    for step in ("-r requirements.txt", "ruff check", "ruff format --check", "-m mypy", "lint_house_rules.py"):
        assert step in plan


def test_the_tests_run_strict(tmp_path: Path) -> None:
    runs = [line for line in plan_of("test", tmp_path / "venv").splitlines() if "-m pytest" in line]
    assert runs and all("INDUCTOR_NPU_STRICT=1" in line for line in runs)


def test_everything_that_make_installs_is_pinned() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#") and "==" not in line] == []
    assert {"ruff", "mypy", "pytest"} <= {line.partition("==")[0] for line in lines}


def test_continuous_integration_lints_and_tests() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert {"make lint", "make test", "make test-ascend"} <= set(lines)


def test_the_environment_of_ascends_compiler_has_the_same_pins() -> None:
    """What both environments have is pinned once, and upstream's Triton is not in this one: Ascend's has its name."""
    lines = [line for line in (ROOT / "requirements-ascend.txt").read_text().splitlines() if line and line[0] != "#"]
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    assert lines[0] == "-c requirements.txt"
    assert [line for line in lines[1:] if "==" not in line and line not in pinned] == []
    assert not any(line.startswith("triton=") or line == "triton" for line in lines)


def test_tests_with_ascends_triton_leave_out_nothing_that_needs_triton(tmp_path: Path) -> None:
    plan = plan_of("test-ascend", tmp_path / "venv")
    for folder in ("compile", "models", "simulator/triton_backend", "tiling", "ascend"):
        assert (ROOT / "tests" / folder).is_dir()
        assert f"--ignore=tests/{folder}" not in plan

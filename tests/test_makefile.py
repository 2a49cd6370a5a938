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
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={environment}", "PART=3/8"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("target", "work"),
    [
        ("demo", "-m examples.demo"),
        ("test", "-m pytest"),
        ("test-full", "-m pytest"),
        ("test-part", "-m pytest"),
        ("bench", "-m benchmarks"),
    ],
)
def test_each_target_sets_up_what_it_needs_first(target: str, work: str, tmp_path: Path) -> None:
    plan = plan_of(target, tmp_path / "venv")
    steps = [
        "-m venv",
        "/whl/cpu",
        "-r requirements.txt",
        "--editable .",
        "-m inductor_npu.device",
        work,
    ]
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)
    assert f"{tmp_path / 'venv'}/bin/python {work}" in plan


def test_lint_runs_linter_formatter_type_checker_house_rules_and_rules_of_imports(tmp_path: Path) -> None:
    plan = plan_of("lint", tmp_path / "venv")
    for step in (
        "-r requirements.txt",
        "ruff check",
        "ruff format --check",
        "-m mypy",
        "lint_house_rules.py",
        "lint_rooms.py",
    ):
        assert step in plan


@pytest.mark.parametrize("target", ["test", "test-full", "test-part", "test-ascend"])
def test_the_tests_run_strict(target: str, tmp_path: Path) -> None:
    runs = [line for line in plan_of(target, tmp_path / "venv").splitlines() if "-m pytest" in line]
    assert runs and all("INDUCTOR_NPU_STRICT=1" in line for line in runs)


def test_the_full_tests_leave_out_only_what_is_run_by_hand(tmp_path: Path) -> None:
    runs = [line for line in plan_of("test-full", tmp_path / "venv").splitlines() if "-m pytest" in line]
    assert [line.partition(" -m ")[2].partition(" -m ")[2] for line in runs] == ['"not budget and not sweep"', "budget"]
    assert not any(option in line for line in runs for option in ("--quick", "--part", "--ignore", "-k"))


def test_a_part_that_does_not_exist_is_one_line_before_anything_is_set_up(tmp_path: Path) -> None:
    for part in ("PART=9/8", "PART="):
        command = ["make", "--no-print-directory", "test-part", f"VENV={tmp_path / 'venv'}", part]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert finished.returncode != 0
        assert [line for line in finished.stderr.splitlines() if not line.startswith("make")] == [
            f"PART is K/N, share K of N, such as 3/8, with 1 <= K <= N; it is {part[5:]!r}"
        ]
        assert not finished.stdout and not (tmp_path / "venv").exists()


def test_everything_that_make_installs_is_pinned() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#") and "==" not in line] == []
    assert {"ruff", "mypy", "pytest"} <= {line.partition("==")[0] for line in lines}


def test_continuous_integration_lints_and_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    for command in ("make lint", "make test ", "make test-ascend", "make test-part PART="):
        assert command in script


def test_the_environment_of_ascends_compiler_has_the_same_pins() -> None:
    """What both environments have is pinned once, and upstream's Triton is not in this one: Ascend's has its name."""
    lines = [line for line in (ROOT / "requirements-ascend.txt").read_text().splitlines() if line and line[0] != "#"]
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    assert lines[0] == "-c requirements.txt"
    assert [line for line in lines[1:] if "==" not in line and line not in pinned] == []
    assert not any(line.startswith("triton=") or line == "triton" for line in lines)


def test_what_is_run_with_ascends_triton_exists(tmp_path: Path) -> None:
    plan = plan_of("test-ascend", tmp_path / "venv")
    (line,) = (line for line in plan.splitlines() if "tests/test_triton_features.py" in line)
    paths = [word for word in line.split() if word.startswith("tests/")]
    assert len(paths) > 5 and all((ROOT / path).exists() for path in paths)

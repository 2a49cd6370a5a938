"""Which tests a run takes, and what becomes of one that takes too long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.part import Part
from tests.tiers import function_of, quick_among

ROOT = Path(__file__).resolve().parents[1]

TESTS = [
    ("tests/compile/test_a.py::test_dtypes[float32]", set()),
    ("tests/compile/test_a.py::test_dtypes[float16]", set()),
    ("tests/compile/test_a.py::test_models[large]", {"slow"}),
    ("tests/compile/test_a.py::test_models[small]", set()),
    ("tests/compile/test_a.py::test_models[smaller]", set()),
    ("tests/target/test_b.py::test_numbers[1]", set()),
    ("tests/target/test_b.py::test_numbers[2]", set()),
    ("tests/examples/test_c.py::test_main_job", {"slow", "quick"}),
    ("tests/ascend/test_d.py::test_verdict", {"ascend"}),
    ("tests/test_e.py::test_time", {"budget"}),
]


def test_of_parameters_that_are_compiled_the_first_that_is_not_slow_is_quick() -> None:
    quick = quick_among(TESTS)
    assert "tests/compile/test_a.py::test_dtypes[float32]" in quick
    assert "tests/compile/test_a.py::test_dtypes[float16]" not in quick
    assert {test for test in quick if "test_models" in test} == {"tests/compile/test_a.py::test_models[small]"}


def test_all_parameters_are_quick_where_nothing_is_compiled() -> None:
    assert {"tests/target/test_b.py::test_numbers[1]", "tests/target/test_b.py::test_numbers[2]"} <= quick_among(TESTS)


def test_what_is_slow_timed_or_ascends_is_quick_only_where_it_says_so() -> None:
    quick = quick_among(TESTS)
    assert "tests/examples/test_c.py::test_main_job" in quick
    assert quick.isdisjoint({"tests/ascend/test_d.py::test_verdict", "tests/test_e.py::test_time"})


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_a_test_function_is_in_one_part_with_all_of_its_cases(parts: int) -> None:
    for node_id, _ in TESTS:
        holding = [number for number in range(1, parts + 1) if Part(number, parts).holds(function_of(node_id))]
        assert len(holding) == 1


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "-1/8", "a/b", "1/0", "3/8/2"])
def test_an_unknown_part_is_one_line_that_says_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="PART is K/N") as caught:
        Part.parse(text)
    assert "\n" not in str(caught.value)


def test_commits_name_all_parts() -> None:
    assert {str(Part.of_commit(f"{number:040x}", 3)) for number in range(3)} == {"1/3", "2/3", "3/3"}


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_run_of_an_unknown_part_ends_at_once() -> None:
    finished = run_pytest("--part", "9/8", "tests/target")
    assert finished.returncode == pytest.ExitCode.USAGE_ERROR
    assert "PART is K/N" in finished.stderr + finished.stdout


BUSY = """
import time
import pytest

def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_busy():
    busy(0.6)

def test_near_the_limit():
    busy(0.3)

@pytest.mark.slow
def test_slow():
    busy(0.6)

def test_quick():
    pass
"""


def test_a_test_that_takes_twice_as_long_as_it_may_fails_unless_it_says_that_it_is_slow(tmp_path: Path) -> None:
    (tmp_path / "test_busy.py").write_text(BUSY)
    limited = tmp_path / "limited.py"
    limit = "from tests import processor_time\nprocessor_time.LIMIT = 0.2\nprocessor_time.KNOWN_WORK_SECONDS = 1e9\n"
    limited.write_text(limit)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "limited", "-c", str(ROOT / "pyproject.toml")]
    command += ["--rootdir", str(tmp_path), "--confcutdir", str(tmp_path), "--times", str(tmp_path / "times")]
    finished = subprocess.run(
        [*command, str(tmp_path / "test_busy.py")],
        cwd=ROOT,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 3 passed, 1 warning" in finished.stdout
    warned, failed = finished.stdout.split("short test summary")
    assert "FAILED" in failed and "test_busy.py::test_busy" in failed
    assert "test_busy.py::test_near_the_limit" in warned
    assert warned.count("or mark it `slow`") == 2
    assert len((tmp_path / "times").read_text().splitlines()) == 4

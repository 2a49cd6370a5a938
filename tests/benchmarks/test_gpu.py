"""The benchmark of a GPU, as far as it can be tried without one: `benchmarks/gpu`."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import cold, profiles, report
from benchmarks.gpu.case import GROUPS, Setup, reason_of
from benchmarks.gpu.kernels import Operands
from benchmarks.gpu.measuring import differs_in_distribution, distance, largest_difference, separate
from benchmarks.gpu.process import ROOT, Pair, Worker, WorkerError
from benchmarks.gpu.worker import all_cases
from tests.processes import run_job

REHEARSAL = Setup(ours="npu", stock="cpu", scale=0.0001, rounds=1, seconds=0.001)


def test_each_case_has_a_name_of_its_own_and_a_known_group() -> None:
    names = [*(f"{case.group}: {case.name}" for case in all_cases()), *cold.measures()]
    assert len(set(names)) == len(names)
    found = {name.partition(":")[0] for name in names}
    assert found | {"kernelbench"} == set(GROUPS), "KernelBench is not on every disk"


def test_inputs_are_the_same_in_each_process_and_of_the_asked_shape() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        operands = Operands(Setup(), torch.bfloat16)
        made.append([operands.normal(3, 2**21), operands.ids(7, 5)])
    (left, ids), (right, _) = made
    assert left.shape == (3, 2**21) and left.dtype is torch.bfloat16 and torch.equal(left, right)
    assert torch.equal(left[0], left[2]) and not torch.equal(left[0], left[1])
    assert ids.shape == (5,) and ids.max() < 7


def test_stock_runs_without_the_package_and_ours_with_the_asked_chip() -> None:
    setup = Setup(target="X")
    assert setup.environment("ours") == {"INDUCTOR_NPU_TARGET": "X"}
    assert setup.environment("stock") == {"INDUCTOR_NPU_PROVIDER": "none"}
    assert Setup(stock="npu").environment("stock") == {}


def test_the_reason_of_an_error_has_its_cause() -> None:
    error = RuntimeError("backend='inductor' raised:\nValueError: the cause\n\nSet TORCHDYNAMO_VERBOSE=1 for more")
    assert reason_of(error) == "RuntimeError: backend='inductor' raised:\nValueError: the cause"
    assert (
        reason_of(ValueError("a" * 5000 + "the end")).endswith("the end")
        and len(reason_of(ValueError("a" * 5000))) < 800
    )


@pytest.mark.slow
def test_two_processes_measure_a_case_with_gradients(tmp_path: Path) -> None:
    with Pair(REHEARSAL, tmp_path / "run") as pair:
        pair.start()
        assert set(pair.machine()["bandwidth"]) == {"ours", "stock"}
        measured = pair.measure("kernels: layer norm, forward + backward", 240)
        assert {"ours", "stock", "eager", "bytes", "error"} <= set(measured) and not measured["differs"]
        with pytest.raises(WorkerError, match=r"(?s)ours: no result after.*ended.*stock: no result"):
            pair.measure("kernels: argmax", 0.001)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_left_on_the_same_machine_only(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    settings = "--stock cpu --scale 0.0001 --rounds 1 --groups kernels"

    def status(*arguments: str) -> int:
        command = [sys.executable, "-m", "benchmarks.gpu", *settings.split(), "--out", str(out), *arguments]
        return run_job(command, timeout=300, PYTHONPATH=str(ROOT)).returncode

    assert status("--only", "sum of all") == 0
    first, second = json.loads(out.read_text())["results"]
    assert status("--only", "argmax", "--go-on") == 0
    results = json.loads(out.read_text())["results"]
    assert results[:2] == [first, second] and {result["name"] for result in results[2:]} == {"argmax", "argmax, bf16"}
    assert status("--go-on", "--repeats", "2") != 0
    assert json.loads(out.read_text())["results"] == results


@pytest.mark.slow
def test_it_is_told_what_each_side_runs(tmp_path: Path) -> None:
    with Pair(dataclasses.replace(REHEARSAL, profiled=True), tmp_path / "run") as pair:
        measured = pair.measure("kernels: softmax, rows of 1k", 240)
    assert any("softmax" in name and "triton" in name for name, _, _ in measured["ours_profile"])
    assert any("softmax" in name for name, _, _ in measured["eager_profile"])
    shown = profiles.table("softmax", map(profiles.Row._make, measured["ours_profile"]))
    assert "triton" in shown and shown.startswith("### softmax: ")


@pytest.mark.slow
def test_what_fails_is_told_with_its_side(tmp_path: Path) -> None:
    worker = Worker(REHEARSAL, "stock", tmp_path / "stock.log")
    try:
        assert worker.answer(120)["cases"]
        with pytest.raises(WorkerError, match="stock: KeyError: 'no such case'"):
            worker.ask("prepare", 60, case="no such case", results="")
        worker.ask("release", 60)  # it goes on
    finally:
        worker.end()


@pytest.mark.slow
def test_a_process_that_crashes_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    worker = Worker(REHEARSAL, "no such side", tmp_path / "log")
    with pytest.raises(WorkerError, match=r"(?s)no such side: crashed: exit status 1.*KeyError"):
        worker.answer(120)


def test_what_differs_is_seen() -> None:
    x = torch.linspace(-1, 1, 1000)
    assert largest_difference(x, x) == 0 and distance([x], [x]) == 0
    worse = x.clone()
    worse[3] += 0.5
    assert largest_difference(worse, x) == pytest.approx(0.5)
    worse[3] = math.nan
    assert largest_difference(worse, x) == math.inf and distance([worse], [x]) == math.inf
    assert largest_difference(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5])) == 0.25
    assert largest_difference(x, x[:10]) == math.inf
    assert differs_in_distribution(x * 2, x) > 0.5


def test_a_separate_function_has_its_own_code() -> None:
    offset = 2

    def shift(x: int) -> int:
        return x + offset

    assert separate(shift, "a")(1) == 3 and separate(shift, "a").__code__ is not separate(shift, "b").__code__


def test_the_tables_name_what_differs_and_what_was_not_measured() -> None:
    times = {"ours": 0.002, "stock": 0.004, "eager": 0.006}
    results: list[dict[str, Any]] = [
        {"group": "kernels", "name": "good", "status": "measured", **times, "bytes": 10**9, "error": 0.0},
        {
            "group": "kernels",
            "name": "bad",
            "status": "measured",
            **times,
            "bytes": 10**9,
            "error": 0.5,
            "differs": True,
        },
        {"group": "models", "name": "missing", "status": "failed", "reason": "RuntimeError: a | b"},
    ]
    text = report.markdown({"machine": {"card": "X"}, "bandwidth": {"stock": 1e12}, "results": results})
    assert "| good | 2.000 | 4.000 | 6.000 | 2.00 | 3.00 | 50% |" in text
    assert "bad (DIFFERS: 5.0e-01)" in text and "| geometric mean |  |  |  | 2.00 | 3.00 |  |" in text
    assert "| models: missing | failed | RuntimeError: a \\| b |" in text

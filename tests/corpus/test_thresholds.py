"""Numbers that were chosen by trying: each exists where the table says, and its trial counts what it should."""

from __future__ import annotations

import importlib

import pytest

from corpus.collecting import collect, collect_with
from corpus.thresholds import THRESHOLDS, _Checked, _trial

LARGEST_STEP = "inductor_npu.codegen.analysis.strided_ranges:LARGEST_STEP"


@pytest.mark.parametrize("constant", THRESHOLDS)
def test_each_number_is_one_of_its_module_and_is_compared_with_others(constant: str) -> None:
    module, _, name = constant.partition(":")
    number = getattr(importlib.import_module(module), name)
    others = {type(number)(value) for value in THRESHOLDS[constant]}
    assert min(others) < number < max(others)


def test_a_trial_counts_kernels_once_and_programs_that_gain_or_lose() -> None:
    default = {
        "a": _Checked([("k1", "vector", 100), ("k2", "scalar", 50)], 1000),
        "b": _Checked([("k1", "vector", 100)], 500),
        "c": _Checked([("k3", "refused", 0)], 500),
    }
    found = {**default, "a": _Checked([("k1", "vector", 100), ("k4", "vector", 20)], 1100)}
    trial = _trial("module:NAME", "4", found, default)
    assert (trial.kernels, trial.vector, trial.slow, trial.refused) == (3, 2, 0, 1)
    assert (trial.better, trial.worse) == (1, 0)
    assert trial.cycles == f"{(120 / 150) ** 0.5:.4f}"


@pytest.mark.slow
def test_another_number_makes_other_kernels_in_the_processes_that_collect() -> None:
    names = ["indexed/index select columns"]
    default = collect(names, "Ascend910B3", 1, lambda: None)
    same = collect_with(names, "Ascend910B3", 1, f"{LARGEST_STEP}=8")
    other = collect_with(names, "Ascend910B3", 1, "inductor_npu.tiling.plan:_MOST_DIMENSIONS=1")
    sources = [
        [kernel.source.text for kernel in collected[0].collection.kernels] for collected in (default, same, other)
    ]
    assert sources[0] == sources[1] != sources[2]

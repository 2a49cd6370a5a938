"""One case on all its sides, and cases that are none."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from opinfo.outcomes import Verdict
from world import own, peak
from world.case import Built, names_of, place
from world.outcomes import Outcome
from world.running import run_case


def outcome_of(name: str, built: Built, sides: str = "npu") -> tuple[Outcome, list[str]]:
    outcome, stages = Outcome(name), []
    return run_case(name, lambda _: built, outcome, sides, stages.append), stages


def test_a_case_that_trains_runs_on_all_sides() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    outcome, stages = outcome_of("own/mlp:train", Built(model, (torch.randn(5, 8),)))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    assert stages == ["build", "eager on the CPU", "eager on npu", "compiled for npu"]
    assert outcome.graphs == 2 and outcome.kernels >= 1 and not outcome.breaks
    assert outcome.npu and outcome.npu.again == 0 and outcome.npu.peak > 4 * outcome.parameters
    assert outcome.cpu and outcome.eager and abs(outcome.cpu.peak - outcome.eager.peak) < 0.5 * outcome.cpu.peak


def test_a_wrong_side_is_named() -> None:
    class Elsewhere(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() + (x.device.type == "npu")

    outcome, _ = outcome_of("own/elsewhere", Built(Elsewhere(), (torch.randn(5),)))
    assert outcome.verdict is Verdict.WRONG and "5 of 5 elements" in outcome.reason


def test_what_eager_refuses_is_no_case() -> None:
    outcome, _ = outcome_of("own/refused", Built(nn.Linear(3, 3), (torch.randn(5, 4),)))
    assert outcome.verdict is Verdict.SKIPPED and "RuntimeError" in outcome.reason


def test_peaks_of_the_cpu_and_of_the_device_agree() -> None:
    def grows(device: str) -> int:
        x = torch.ones(1000, device=device)
        return peak.peak_of(lambda: (x + 1) * 2 + 3, device)  # two results of 4,000 bytes are alive at a time

    assert 0 <= grows("cpu") - 8000 < 100  # numbers in Python become tensors
    assert 0 <= grows("npu") - 8000 < 100


def test_bytes_that_are_shared_count_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    assert peak.held(Built(model, (torch.ones(2),))) == 64 + 8


def test_a_third_of_the_cases_trains_by_their_names_alone() -> None:
    names = list(names_of("own", [str(number) for number in range(300)]))
    assert 70 < len(names) - 300 < 130
    assert "own/5:train" in names or place("own/5", 3) != 0


@pytest.mark.slow
def test_every_network_of_our_own_runs_in_eager() -> None:
    for member in own.members():
        built = own.build(member)
        copy.deepcopy(built.model)(*built.args)
        assert built.args, member

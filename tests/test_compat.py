"""The touches of torch's private state: few, each still needed, each doing what its reason says."""

from __future__ import annotations

import copy

import pytest
import torch

from inductor_npu import compat

MOST_PATCHES = 10  # a number to lower, not to raise


def test_there_are_few() -> None:
    assert len(compat.PATCHES) <= MOST_PATCHES


@pytest.mark.parametrize("patch", compat.PATCHES, ids=lambda patch: patch.symbol)
def test_each_says_why_and_names_something_that_exists(patch: compat.Patch) -> None:
    assert len(patch.reason) > 40
    assert patch.torch_versions
    assert compat.symbol_value(patch.symbol) is not None


class TiedModel(torch.nn.Module):
    """An embedding whose weight is also the output layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(7, 4)
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 7, bias=False))
        self.inner[1].weight = self.words.weight


def test_tied_parameters_stay_tied_on_their_way_to_npu_and_back() -> None:
    model = TiedModel()
    for device in ("npu", "cpu"):
        model = model.to(device)

        assert model.inner[1].weight is model.words.weight
        assert model.words.weight.device.type == device
        assert len(list(model.parameters())) == 3


def test_tied_parameters_get_one_gradient_and_one_update() -> None:
    on_cpu = TiedModel()
    on_npu = copy.deepcopy(on_cpu).to("npu")
    for model, device in ((on_cpu, "cpu"), (on_npu, "npu")):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.inner(model.words(torch.tensor([1, 2, 3], device=device))).square().sum().backward()
        optimizer.step()

    torch.testing.assert_close(on_npu.words.weight.cpu(), on_cpu.words.weight)


def test_untied_parameters_stay_untied() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).to("npu")

    assert model[0].weight is not model[1].weight


@pytest.mark.parametrize(
    ("torch_version", "triton_version", "named"),
    [
        ("2.10.0", "3.6.0", ["torch 2.10.0", "2.11 to 2.13"]),
        ("2.14.0+cpu", "3.6.0", ["torch 2.14.0", "2.11 to 2.13"]),
        ("2.13.0", "3.1.0", ["triton 3.1.0", "3.2 to 3.6"]),
        ("2.13.0", None, ["Triton is not installed", "install triton"]),
    ],
)
def test_versions_outside_the_tested_range_are_named(
    torch_version: str, triton_version: str | None, named: list[str]
) -> None:
    (problem,) = compat.version_problems(torch_version, triton_version)
    for part in named:
        assert part in problem


@pytest.mark.parametrize("torch_version", ["2.11.0", "2.12.1+cpu", "2.13.0a0+git123"])
def test_versions_inside_the_tested_range_say_nothing(torch_version: str) -> None:
    assert compat.version_problems(torch_version, "3.6.0") == []

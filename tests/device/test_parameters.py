"""A module that moves to the device and back: its parameters stay the objects that they are."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn


def _tied_model() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def test_parameters_stay_the_same_objects_there_and_back() -> None:
    model = _tied_model()
    before = list(model.parameters())
    for device in ("npu", "cpu", "npu"):
        model.to(device)
        assert all(now is then and now.device.type == device for now, then in zip(model.parameters(), before))
    assert model[0].weight is model[2].weight
    assert model.half()[0].weight is before[0] and before[0].dtype is torch.float16


def test_an_optimizer_that_was_made_before_the_move_trains_what_moved() -> None:
    model, x = _tied_model(), torch.randn(8, 4)
    expected = copy.deepcopy(model)
    for each, device in ((model, "npu"), (expected, "cpu")):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        each(x).sum().backward()  # gradients move along
        each.to(device)
        each(x.to(device)).square().sum().backward()
        optimizer.step()
    for moved, stayed in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(moved.cpu(), stayed, rtol=1e-5, atol=1e-5)


def test_memory_of_another_device_can_be_given_to_a_tensor() -> None:
    x = torch.ones(3)
    x.data = torch.arange(3.0, device="npu")
    assert x.device.type == "npu" and x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("data", [torch.empty(3, device="meta"), torch.eye(3).to_sparse()], ids=["meta", "sparse"])
def test_other_kinds_of_tensors_are_refused_as_ever(data: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(3, device="npu").data = data


def test_a_module_on_no_device_is_filled_as_ever() -> None:
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    model.to_empty(device="npu")
    assert model.weight.device.type == "npu"

"""Saving, loading, pickling and copying npu tensors."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

_SECOND = pytest.param("npu:1", marks=pytest.mark.two_devices)


def save(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("saved_on", ["cpu", "npu:0", _SECOND])
@pytest.mark.parametrize("map_location", [None, "cpu", "npu", _SECOND, torch.device("npu:0")])
def test_a_tensor_is_loaded_where_it_is_wanted(saved_on: str, map_location: str | torch.device | None) -> None:
    loaded = torch.load(save(torch.arange(3, device=saved_on)), map_location=map_location)
    wanted = torch.device(saved_on if map_location is None else map_location)
    assert loaded.device == (torch.device("npu:0") if wanted == torch.device("npu") else wanted)
    assert loaded.tolist() == [0, 1, 2]


@pytest.mark.two_devices
def test_locations_can_be_mapped_one_by_one() -> None:
    loaded = torch.load(
        save([torch.ones(1, device="npu:0"), torch.ones(1, device="npu:1")]), map_location={"npu:0": "npu:1"}
    )
    assert [tensor.device for tensor in loaded] == [torch.device("npu:1")] * 2


@pytest.mark.two_devices
def test_a_device_that_is_gone_is_named() -> None:
    file = save(torch.ones(1, device="npu:1"))
    with pytest.raises(RuntimeError, match="npu"):
        torch.load(file, map_location="npu:6")


def test_views_that_share_memory_still_do() -> None:
    base = torch.arange(6.0, device="npu")
    a, b = torch.load(save((base, base[2:4])))
    b.zero_()
    assert a.tolist() == [0, 1, 0, 0, 4, 5]


def test_checkpoint_of_model_and_optimizer() -> None:
    model = torch.nn.Linear(2, 2).npu()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2, device="npu")).sum().backward()
    optimizer.step()
    state = torch.load(save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), weights_only=True)
    twin = torch.nn.Linear(2, 2).npu()
    twin.load_state_dict(state["model"])
    torch.optim.Adam(twin.parameters()).load_state_dict(state["optimizer"])
    assert torch.equal(twin.weight, model.weight)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_parameters_survive_copying(duplicate) -> None:
    parameter = torch.nn.Parameter(torch.randn(2, 3, device="npu:0").t())
    twin = duplicate(parameter)
    assert isinstance(twin, torch.nn.Parameter) and twin.requires_grad
    assert twin.device == torch.device("npu:0") and twin.stride() == parameter.stride()
    assert torch.equal(twin, parameter)


def test_deepcopy_keeps_gradients_and_sharing() -> None:
    a = torch.ones(3, device="npu", requires_grad=True)
    (a * 2).sum().backward()
    pair = copy.deepcopy([a, a])
    assert pair[0] is pair[1] and pair[0] is not a
    assert pair[0].grad.tolist() == [2.0, 2.0, 2.0]

"""The stand-in for CANN does what torch_npu relies on, and shows what programs forget."""

from __future__ import annotations

import re

import pytest
import torch

from inductor_npu.target import get_target
from tests.ascend_seat.seat import HERE


def test_values_go_to_the_device_and_come_back() -> None:
    x = torch.randn(64, 300)
    assert torch.equal(x.npu().cpu(), x)
    assert torch.equal((x.npu() * 2 + 1).cpu(), x * 2 + 1)


def test_there_are_two_devices() -> None:
    x = torch.randn(17)
    assert torch.npu.device_count() == 2
    assert torch.equal(x.to("npu:1").to("npu:0").cpu(), x)


def test_a_stream_that_is_waited_for_has_done_its_work() -> None:
    x = torch.randn(1000).npu()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        y = x.clone()
    torch.npu.current_stream().wait_stream(stream)
    assert torch.equal(y.cpu(), x.cpu())


def test_an_event_is_done_once_the_work_before_it_is() -> None:
    stream, event = torch.npu.Stream(), torch.npu.Event()
    x = torch.randn(
        16 << 20
    ).pin_memory()  # a copy takes many times what it takes to ask for the next one, on a busy host too
    with torch.npu.stream(stream):
        for _ in range(16):
            y = x.to("npu", non_blocking=True)
        event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()
    assert torch.equal(y.cpu(), x)


def test_the_chip_says_its_name_and_its_cores() -> None:
    properties = torch.npu.get_device_properties(0)
    assert properties.name == "Ascend910B3"
    assert (properties.cube_core_num, properties.vector_core_num) == (20, 40)


@pytest.mark.parametrize(
    "chip", re.findall(r'\{"(Ascend\w+(?:-1)?)", (\d+), (\d+)\}', (HERE / "cann" / "devices.cpp").read_text())
)
def test_chips_are_those_of_our_targets(chip: tuple[str, str, str]) -> None:
    name, cube_cores, vector_cores = chip
    target = get_target(name)
    assert (target.cube_cores, target.vector_cores) == (int(cube_cores), int(vector_cores))

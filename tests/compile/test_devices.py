"""More than one device: CPU and npu in one graph, several npu devices, guards that restore the current device."""

from __future__ import annotations

import pytest
import torch

from tests.compile.helpers import to_npu


def test_cpu_and_npu_in_one_graph() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.tanh(y) + 1

    x, y = torch.randn(50), torch.randn(60)
    on_npu, on_cpu = torch.compile(both, fullgraph=True)(x.to("npu"), y)
    assert (on_npu.device.type, on_cpu.device.type) == ("npu", "cpu")
    torch.testing.assert_close(on_npu.cpu(), torch.relu(x) * 2)
    torch.testing.assert_close(on_cpu, torch.tanh(y) + 1)


def test_copies_between_devices_inside_the_graph() -> None:
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).to("npu")
        return (y + 1).cpu() * 3

    x = torch.randn(30)
    torch.testing.assert_close(torch.compile(there_and_back, fullgraph=True)(x), (x * 2 + 1) * 3)


needs_two = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs INDUCTOR_NPU_SIM_DEVICES=2 or two chips")


@needs_two
def test_second_device() -> None:
    x = torch.randn(100)
    compiled = torch.compile(lambda x: torch.softmax(x, -1) + 1, fullgraph=True)
    for device in ("npu:1", "npu:0", "npu:1"):
        actual = compiled(to_npu(x, device))
        assert actual.device == torch.device(device)
        torch.testing.assert_close(actual.cpu(), torch.softmax(x, -1) + 1)


@needs_two
def test_the_current_device_stays_what_it_was() -> None:
    x = torch.randn(10).to("npu:1")
    with torch.npu.device(0):
        torch.compile(lambda x: x + 1)(x)
        assert torch.npu.current_device() == 0


def test_on_a_stream_of_the_user() -> None:
    stream = torch.npu.Stream()
    compiled = torch.compile(lambda x: x * 2 + 1)
    x = torch.randn(1000).to("npu")
    compiled(x)
    with torch.npu.stream(stream):
        y = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(y.cpu(), x.cpu() * 2 + 1)

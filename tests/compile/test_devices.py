"""More than one device: CPU and npu in one graph, several npu devices, guards that restore the current device."""

from __future__ import annotations

import re

import pytest
import torch

from tests.codegen.texts import module_of
from tests.processes import run_forked


@pytest.mark.slow
def test_loops_are_written_for_the_device_that_runs_them() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.tanh(y) + 1

    with torch._inductor.config.patch({"cpp.vec_isa_ok": True}):
        module = module_of(both, torch.randn(50, device="npu"), torch.randn(60))
    (for_npu,) = re.findall(r"async_compile\.triton\('(\w+)'", module)
    (for_cpu,) = re.findall(r"(\w+) = async_compile\.cpp_pybinding", module)
    assert ("relu" in for_npu, "tanh" in for_cpu) == (True, True)


def test_each_device_runs_its_part_of_one_graph() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        product = (x + 1).cpu() @ y  # of the library: nothing has to be compiled for the CPU
        return torch.relu(x) * 2, product, product.to("npu") + x

    x, y = torch.randn(9, 9), torch.randn(9, 9)
    results = torch.compile(both, fullgraph=True)(x.to("npu"), y)
    assert [result.device.type for result in results] == ["npu", "cpu", "npu"]
    for result, expected in zip(results, (torch.relu(x) * 2, (x + 1) @ y, (x + 1) @ y + x), strict=True):
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.slow  # Inductor's C++ has to be compiled
def test_cpu_and_npu_in_one_graph() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) * 2, torch.tanh(y) + 1

    x, y = torch.randn(50), torch.randn(60)
    on_npu, on_cpu = torch.compile(both, fullgraph=True)(x.to("npu"), y)
    assert (on_npu.device.type, on_cpu.device.type) == ("npu", "cpu")
    torch.testing.assert_close(on_npu.cpu(), torch.relu(x) * 2)
    torch.testing.assert_close(on_cpu, torch.tanh(y) + 1)


@pytest.mark.slow  # Inductor's C++ has to be compiled
def test_copies_between_devices_inside_the_graph() -> None:
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).to("npu")
        return (y + 1).cpu() * 3

    x = torch.randn(30)
    torch.testing.assert_close(torch.compile(there_and_back, fullgraph=True)(x), (x * 2 + 1) * 3)


@pytest.mark.embedded
def test_several_devices_in_one_process() -> None:
    """Every device runs the compiled code on its own memory, and the current device stays what it was."""
    finished = run_forked(
        """
        import torch
        x = torch.randn(100)
        function = torch.compile(lambda x: torch.softmax(x, -1) + x.sum(), fullgraph=True)
        for device in ("npu:1", "npu:0", "npu:2", "npu:1"):
            actual = function(x.to(device))
            assert actual.device == torch.device(device), actual.device
            torch.testing.assert_close(actual.cpu(), torch.softmax(x, -1) + x.sum())
            assert torch.npu.current_device() == 0
        with torch.npu.device(2):
            function(x.to("npu:1"))
            assert torch.npu.current_device() == 2

        layer = torch.nn.Linear(100, 3).to("npu:1")
        torch.compile(layer)(x.to("npu:1")).sum().backward()
        torch.testing.assert_close(layer.weight.grad.cpu(), x.expand(3, 100))
        moved = torch.compile(lambda x: (x * 2).to("npu:2") + 1)(x.to("npu:1"))
        assert moved.device == torch.device("npu:2"), moved.device
        torch.testing.assert_close(moved.cpu(), x * 2 + 1)
        print("passed")
        """,
        INDUCTOR_NPU_SIM_DEVICES="3",
        INDUCTOR_NPU_STRICT="1",
    )
    assert finished.lines() == ["passed"]


def test_on_a_stream_of_the_user() -> None:
    stream = torch.npu.Stream()
    compiled = torch.compile(lambda x: x * 2 + 1)
    x = torch.randn(1000).to("npu")
    compiled(x)
    with torch.npu.stream(stream):
        y = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(y.cpu(), x.cpu() * 2 + 1)

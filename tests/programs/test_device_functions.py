"""Functions of `torch.npu` inside compiled code: those that go into a graph, as CUDA's do, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import inductor_npu
from tests.compile.helpers import assert_equal
from tests.processes import run_python


def test_what_a_device_is_is_a_constant_of_the_graph() -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        properties = torch.npu.get_device_properties(x.device)
        y = x + torch.npu.device_count() * torch.npu.is_available() + torch.npu.current_device()
        if torch.npu.is_bf16_supported() and torch.npu.get_device_capability() is None:
            y = y * properties.vector_core_num
        names = (torch.npu.get_device_name(), torch.npu.get_device_name(0), properties.name)
        return y, properties.total_memory, names, torch.npu.can_device_access_peer(0, 0), torch.npu.is_initialized()

    x = torch.arange(4.0, device="npu")
    expected, *others = function(x)
    assert_equal(torch.compile(function, fullgraph=True)(x), (expected.cpu(), *others))


def test_synchronisation_is_in_the_graph() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch.npu.synchronize()
        torch.npu.synchronize(0)
        torch.npu.synchronize(x.device)
        torch.npu.init()
        torch.npu.empty_cache()
        return y.cos() + 1

    x = torch.randn(100)
    assert_equal(torch.compile(function, fullgraph=True)(x.to("npu")), x.sin().cos() + 1)
    torch._dynamo.reset()
    explained = inductor_npu.explain(torch.compile(function), x.to("npu"))
    assert not explained.graph_breaks
    assert len(explained.graphs) == 1


def test_the_current_stream_is_known() -> None:
    stream = torch.npu.Stream()

    def function(x: torch.Tensor) -> torch.Tensor:
        stream.wait_stream(torch.npu.current_stream())
        with stream:
            y = torch.tanh(x)
        torch.npu.current_stream().wait_stream(stream)
        return y + 1

    x = torch.randn(1000)
    assert_equal(torch.compile(function, fullgraph=True)(x.to("npu")), torch.tanh(x) + 1)


@pytest.mark.parametrize(
    "ask",
    [
        torch.npu.memory_allocated,
        torch.npu.memory_stats,
        torch.npu.get_rng_state,
        torch.npu.seed_all,
        lambda: torch.npu.manual_seed(1),
        lambda: torch.npu.set_device(0),
    ],
)
def test_what_is_asked_while_the_program_runs_breaks_the_graph_and_says_so(ask: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        ask()
        return y * 2

    x = torch.ones(3)
    assert_equal(torch.compile(function)(x.to("npu")), (x + 1) * 2)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"this function of torch\.npu asks or changes the device"):
        torch.compile(function, fullgraph=True)(x.to("npu"))


@pytest.mark.slow
@pytest.mark.two_devices
def test_another_current_device_is_compiled_for_anew() -> None:
    finished = run_python(
        """
        import torch
        @torch.compile(fullgraph=True, backend="eager")
        def function(x):
            torch.npu.synchronize()
            return x + torch.npu.current_device()
        for index in (0, 1, 0):
            torch.npu.set_device(index)
            print(function(torch.zeros(1)).item())
        """,
        INDUCTOR_NPU_SIM_DEVICES="2",
    )
    assert finished.lines() == ["0.0", "1.0", "0.0"]

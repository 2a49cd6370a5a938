"""Streams, events and several devices inside compiled code."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import inductor_npu
from inductor_npu.device import _C
from tests.compile.helpers import assert_equal, check
from tests.processes import run_forked
from tests.torch_features import needs_torch


@pytest.mark.parametrize("make", [lambda: torch.npu.Stream(), lambda: torch.Stream("npu")], ids=["npu", "torch"])
def test_work_on_another_stream(make: Any) -> None:
    stream = make()

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        stream.wait_stream(torch.npu.current_stream())
        with stream:
            y = torch.tanh(x) * 2
        torch.npu.current_stream().wait_stream(stream)
        return y + 1

    x = torch.randn(1000)
    for _ in range(2):
        assert_equal(function(x.to("npu")), torch.tanh(x) * 2 + 1)


def test_events_order_two_streams() -> None:
    side = torch.npu.Stream()
    ready, done = torch.npu.Event(), torch.npu.Event()

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        ready.record()
        with torch.npu.stream(side):
            ready.wait(side)
            z = y * 3
            done.record(side)
        done.wait()
        return z + y

    x = torch.randn(100_000)
    assert_equal(function(x.to("npu")), x.sin() * 4)
    side.synchronize()
    assert done.query()


@needs_torch("2.13", "breaks the graph at a stream")
def test_streams_that_know_no_device_are_part_of_the_graph() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        side, done = torch.Stream(x.device), torch.Event(x.device)
        y = x.sin()
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            z = y * 3
            done.record(side)
        torch.accelerator.current_stream().wait_event(done)
        return z + 1

    x = torch.randn(100_000)
    compiled = torch.compile(function, fullgraph=True)
    with inductor_npu.record_explanation() as recorded:
        assert_equal(compiled(x.to("npu")), x.sin() * 3 + 1)
    (graph,) = recorded.explanation.graphs
    assert len(graph.kernels) == 3 and graph.left_to_eager == ()

    _C.launch_record(True)
    compiled(x.to("npu"))
    launches = [(launch["name"], launch["stream"]) for launch in _C.launch_record(False)]
    (_, first), (multiplies, second), (_, third) = launches
    assert first == third != second and "mul" in multiplies


@pytest.mark.embedded
def test_two_npus_in_one_graph() -> None:
    finished = run_forked(
        """
        import torch

        def function(x, y):
            there = torch.softmax(x, -1).to("npu:1")
            return torch.tanh(x) + 1, (there * y).sum(-1), there.cpu() @ y.cpu().t()

        x, y = torch.randn(20, 30), torch.randn(20, 30)
        inputs = x.to("npu:0").requires_grad_(), y.to("npu:1").requires_grad_()
        compiled = torch.compile(function, fullgraph=True)
        first, second, third = compiled(*inputs)
        assert [each.device for each in (first, second, third)] == [
            torch.device(name) for name in ("npu:0", "npu:1", "cpu")
        ]
        wanted = torch.tanh(x) + 1, (torch.softmax(x, -1) * y).sum(-1), torch.softmax(x, -1) @ y.t()
        for got, expected in zip((first, second, third), wanted):
            torch.testing.assert_close(got.detach().cpu(), expected)
        first.sum().cpu().add(second.sum().cpu()).backward()
        torch.testing.assert_close(inputs[1].grad.cpu(), torch.softmax(x, -1))
        assert inputs[0].grad.device == torch.device("npu:0")
        assert torch.npu.current_device() == 0
        print("passed")
        """,
        INDUCTOR_NPU_SIM_DEVICES="2",
        INDUCTOR_NPU_STRICT="1",
    )
    assert finished.lines() == ["passed"]


def test_single_numbers_on_the_cpu() -> None:
    """As in eager, they join in without changing the dtype, have gradients on the CPU, and are no constants."""

    def function(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return torch.where(x > shift, x * scale, shift - x).addcmul(x, x, value=0.5)

    compiled = torch.compile(function, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    for number in (2.0, 3.5):
        x, scale = torch.randn(50, 8), torch.tensor(number, dtype=torch.float64, requires_grad=True)
        mirrored, shift = scale.detach().clone().requires_grad_(), torch.tensor(0.25)
        on_npu = compiled(x.to("npu"), scale, shift)
        expected = function(x, mirrored, shift)
        assert_equal(on_npu, expected)
        on_npu.sum().backward()
        expected.sum().backward()
        assert scale.grad.device.type == "cpu"
        torch.testing.assert_close(scale.grad, mirrored.grad, rtol=1e-5, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_number_taken_from_the_device_and_one_made_on_the_cpu() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        on_cpu = torch.tensor(3.0) * torch.arange(4)[2]
        return x * on_cpu + torch.full((), 2.0)

    check(function, torch.randn(40))

"""What cannot be captured, and wrong uses of graphs: one error that names it, no memory lost; the process goes on."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch

from tests.device.graphs.test_capture import captured, npu, side_stream
from tests.device.native_kernels import sleep


def event() -> torch.Event:
    made = torch.Event(device="npu")
    made.record()
    return made


REFUSED = {
    r"item\(\) cannot be captured": lambda x: x.sum().item(),
    r"a synchronisation of the device cannot": lambda x: torch.npu.synchronize(),
    r"a synchronisation cannot": lambda x: torch.npu.current_stream().synchronize(),
    r"a query of whether a stream is done cannot": lambda x: torch.npu.current_stream().query(),
    r"cannot synchronize an event": lambda x: event().synchronize(),
    r"cannot query an event": lambda x: event().query(),
    r"a copy from npu:0 to cpu cannot": lambda x: x.cpu(),
    r"a copy from cpu to npu:0 cannot": lambda x: x.copy_(torch.zeros(8, 8)),
    r"operator aten::nonzero cannot .* sizes are not known": lambda x: x.nonzero(),
    r"operator aten::index.Tensor cannot .* tensor of the CPU": lambda x: x[torch.tensor([1])],
    r"at least two devices, npu:0 and cpu": lambda x: x + torch.ones(8),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_captured_is_named(message):
    x = npu(8, 8)
    reserved = torch.npu.memory_reserved()
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match=message), torch.npu.graph(graph):
        REFUSED[message](x + 1)  # the sum takes memory of the graph's pool
    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= reserved
    with torch.npu.graph(graph):  # the same graph object captures now
        z = x * 2
    graph.replay()
    assert torch.equal(z.cpu(), x.cpu() * 2)


def test_an_error_that_the_program_swallows_leaves_no_graph():
    x = npu(8)
    graph = torch.npu.NPUGraph()
    with (
        pytest.raises(RuntimeError, match=r"item\(\) cannot be captured"),
        torch.npu.graph(graph),
        contextlib.suppress(RuntimeError),
    ):
        x.sum().item()
    with pytest.raises(RuntimeError, match="cannot replay a graph that was not captured"):
        graph.replay()


def test_waiting_for_work_outside_of_the_capture():
    busy = side_stream()

    def wait() -> None:
        sleep(200, busy)
        torch.npu.current_stream().wait_stream(busy)

    with pytest.raises(RuntimeError, match="cannot wait for work of stream"):
        captured(wait)


class TestWrongUse:
    def test_capture_twice(self):
        x = npu(4)
        graph, _ = captured(lambda: x + 1)
        with pytest.raises(RuntimeError, match=r"holds a capture already: reset\(\)"), torch.npu.graph(graph):
            pass
        graph.replay()
        graph.reset()
        with torch.npu.graph(graph):
            y = x + 2
        graph.replay()
        assert torch.equal(y.cpu(), x.cpu() + 2)

    def test_capture_within_a_capture(self):
        x = npu(4)
        stream = torch.npu.Stream()
        outer, inner = torch.npu.NPUGraph(), torch.npu.NPUGraph()
        with torch.npu.stream(stream):
            outer.capture_begin()
            with pytest.raises(RuntimeError, match="captures a graph already"):
                inner.capture_begin()
            y = x + 1
            outer.capture_end()
        outer.replay()
        assert torch.equal(y.cpu(), x.cpu() + 1)

    def test_end_on_another_stream(self):
        graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
        with torch.npu.stream(stream):
            graph.capture_begin()
        with pytest.raises(RuntimeError, match="the capture began on"):
            graph.capture_end()
        graph.reset()
        assert not torch.npu.is_current_stream_capturing()

    @pytest.mark.parametrize("method", ["capture_end", "replay", "pool", "instantiate", "kernels"])
    def test_before_any_capture(self, method):
        with pytest.raises(RuntimeError, match="capture"):
            getattr(torch.npu.NPUGraph(), method)()

    def test_another_error_mode(self):
        with pytest.raises(ValueError, match="capture_error_mode must be one of"):
            torch.npu.NPUGraph().capture_begin(capture_error_mode="strict")


def test_is_current_stream_capturing():
    stream = torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, stream=stream):
        assert torch.npu.is_current_stream_capturing()
        with torch.npu.stream(torch.npu.default_stream()):
            assert not torch.npu.is_current_stream_capturing()
    assert not torch.npu.is_current_stream_capturing()

"""What a captured graph records, and what its replays do: kernels, copies, operators of the library, streams, random
numbers, backward passes.
"""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn.functional import conv2d, dropout, scaled_dot_product_attention

from inductor_npu import providers
from inductor_npu.device.npu.graphs import NPUGraph
from tests.device.native_kernels import launch, register


def npu(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, generator=generator, dtype=dtype).npu()


def side_stream() -> torch.npu.Stream:
    """Another stream than the one that `captured` captures: streams come from a pool, in turn."""
    capturing = torch.npu.graph.default_capture_stream
    streams = torch.npu.Stream(), torch.npu.Stream()
    return next(each for each in streams if capturing is None or each.stream_id != capturing.stream_id)


def captured(function, *arguments: torch.Tensor):
    """The graph of `function(*arguments)`, and its result, which each replay fills."""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = function(*arguments)
    return graph, result


class TestReplay:
    def test_nothing_runs_before_the_replay(self):
        x = torch.zeros(4, device="npu")
        graph, _ = captured(lambda: x.add_(1))
        assert x.sum().item() == 0
        graph.replay()
        assert x.sum().item() == 4

    def test_a_replay_sees_new_values_of_its_inputs(self):
        x, w = npu(33, 17), npu(17, 5, seed=1)
        graph, y = captured(lambda: (x @ w).relu().sum(0))
        for seed in range(3):
            x.copy_(npu(33, 17, seed=seed))
            graph.replay()
            torch.testing.assert_close(y.cpu(), (x.cpu() @ w.cpu()).relu().sum(0))

    def test_replays_are_queued_in_the_order_of_the_stream(self):
        x = torch.zeros(1000, device="npu")
        graph, _ = captured(lambda: x.mul_(2).add_(1))
        expected = torch.zeros(1000)
        for _ in range(20):
            graph.replay()
            expected.mul_(2).add_(1)
        assert torch.equal(x.cpu(), expected)

    def test_kernels_and_their_arguments(self):
        kernel = register("iota")
        out = torch.zeros(5, dtype=torch.int64, device="npu")
        graph, _ = captured(lambda: launch(kernel, "pl", out, 7, grid=(5, 1, 1)))
        assert not out.any().item()
        graph.replay()
        assert out.tolist() == [7, 8, 9, 10, 11]
        assert graph.kernels() == ["iota"]

    def test_a_graph_replays_on_another_stream(self):
        x = npu(64, 64)
        graph, y = captured(lambda: x @ x)
        other = torch.npu.Stream()
        with torch.npu.stream(other):
            graph.replay()
        other.synchronize()
        torch.testing.assert_close(y.cpu(), x.cpu() @ x.cpu())

    def test_a_replay_in_a_capture_becomes_part_of_the_graph(self):
        x = torch.zeros(4, device="npu")
        inner, _ = captured(lambda: x.add_(1))

        def twice() -> None:
            inner.replay()
            inner.replay()

        outer, _ = captured(twice)
        outer.replay()
        assert x.cpu().tolist() == [2, 2, 2, 2]

    def test_an_empty_graph_replays(self):
        graph, _ = captured(lambda: None)
        graph.replay()
        torch.npu.synchronize()
        assert graph.kernels() == []

    @pytest.mark.failing_kernel
    def test_a_failure_names_the_work_and_the_next_replay_runs(self):
        indices = torch.tensor([0, 1], device="npu")
        x = torch.arange(4.0, device="npu")
        graph, y = captured(lambda: x.index_select(0, indices))
        indices.fill_(9)
        graph.replay()
        with pytest.raises(RuntimeError, match=r"graph replay failed on npu:0.*aten::index_select.*out of range"):
            torch.npu.synchronize()
        indices.fill_(2)
        graph.replay()
        assert y.cpu().tolist() == [2, 2]


# What a kernel of the library makes of its arguments: new tensors, views, arguments, several results, a list.
OPERATORS = {
    "new tensor": lambda x, y: torch.logsumexp(x, 1),
    "in place": lambda x, y: x.exp_(),
    "out": lambda x, y: torch.mm(x, y, out=torch.empty(8, 8, device="npu")),
    "out, resized": lambda x, y: torch.mm(x, y, out=torch.empty(0, device="npu")),
    "view of an argument": lambda x, y: x.t()[1:] + 1,
    "several results": lambda x, y: torch.cat([part.double() for part in torch.sort(x)]),
    "list of tensors": lambda x, y: torch._foreach_add([x, y], 1)[1],
    "other dtype": lambda x, y: (x > y).to(torch.int64).sum(),
    "0-d": lambda x, y: x.max() - y.min(),
    "empty": lambda x, y: x[:0].sum(0) + y[:0].sum(),
    "number of the CPU": lambda x, y: x * torch.tensor(2.5),
    "number of Python": lambda x, y: (x.max() > 0).to(torch.int8) + 1,
    "copy with other strides": lambda x, y: x.t().contiguous() + y.t().clone(),
    "copy with another dtype": lambda x, y: x.half().float() + y,
    "concatenation": lambda x, y: torch.cat([x, y]),
    "indices": lambda x, y: x[:, torch.arange(3, device="npu")],
    "factories": lambda x, y: x + torch.full((8, 8), 2.0, device="npu") + torch.arange(8.0, device="npu"),
    "fused attention": lambda x, y: scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]),
    "convolution": lambda x, y: conv2d(x[None, None], y[None, None, :3, :3], padding=1),
    "complex": lambda x, y: torch.view_as_real(torch.fft.fft(x)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_the_library(name):
    operator = OPERATORS[name]
    x, y = npu(8, 8), npu(8, 8, seed=1)
    graph, result = captured(operator, x, y)
    for seed in (3, 4):
        x.copy_(npu(8, 8, seed=seed))
        before = x.clone(), y.clone()
        graph.replay()
        torch.testing.assert_close(result, operator(*before))


class TestStreams:
    def test_streams_that_wait_take_part(self):
        x, side = npu(32, 32), side_stream()

        def fork() -> torch.Tensor:
            main = torch.npu.current_stream()
            left = x * 2
            side.wait_stream(main)
            with torch.npu.stream(side):
                right = left + 1
            main.wait_stream(side)
            return left + right

        graph, y = captured(fork)
        assert side.query()
        graph.replay()
        torch.testing.assert_close(y.cpu(), x.cpu() * 4 + 1)

    def test_a_stream_that_is_not_waited_for_is_an_error(self):
        x, side = npu(4), side_stream()

        def fork() -> None:
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                x.add_(1)

        with pytest.raises(RuntimeError, match=r"stream \d+ of npu:0 .*has not waited for all"):
            captured(fork)
        with torch.npu.stream(side):  # captures no longer
            assert (x + 1).sum().item() == pytest.approx((x.cpu() + 1).sum().item())

    def test_work_of_other_streams_runs_meanwhile(self):
        x, other = npu(16), side_stream()
        seen = []

        def capture() -> torch.Tensor:
            with torch.npu.stream(other):
                seen.append((x + 1).cpu())
            return x * 2

        graph, y = captured(capture)
        assert torch.equal(seen[0], x.cpu() + 1)
        graph.replay()
        assert torch.equal(y.cpu(), x.cpu() * 2)

    def test_other_threads_run_meanwhile(self):
        x = npu(16)
        seen = []

        def work() -> None:
            seen.append((x + 1).cpu())
            torch.npu.synchronize()
            seen.append((x + 2).cpu())

        def capture() -> torch.Tensor:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return x * 2

        captured(capture)
        assert torch.equal(seen[0], x.cpu() + 1) and torch.equal(seen[1], x.cpu() + 2)


class TestRandomNumbers:
    def test_each_replay_draws_anew(self):
        graph, y = captured(lambda: torch.rand(100, device="npu"))
        graph.replay()
        first = y.cpu()
        graph.replay()
        assert not torch.equal(first, y.cpu())

    def test_replays_draw_what_eager_calls_would(self):
        graph, y = captured(lambda: dropout(torch.ones(100, device="npu"), 0.5))
        torch.npu.manual_seed(7)
        graph.replay()
        first = y.cpu()
        graph.replay()
        torch.npu.manual_seed(7)
        assert torch.equal(first, dropout(torch.ones(100, device="npu"), 0.5).cpu())
        assert torch.equal(y.cpu(), dropout(torch.ones(100, device="npu"), 0.5).cpu())

    def test_a_graph_that_draws_is_replayed_in_a_capture(self):
        inner, y = captured(lambda: torch.rand(100, device="npu"))
        outer, _ = captured(inner.replay)
        torch.npu.manual_seed(7)
        outer.replay()
        first = y.cpu()
        outer.replay()
        assert not torch.equal(first, y.cpu())
        torch.npu.manual_seed(7)
        assert torch.equal(first, torch.rand(100, device="npu").cpu())

    def test_twice_in_a_capture_it_does_not_draw_the_same(self):
        inner, y = captured(lambda: torch.rand(100, device="npu"))

        def twice() -> tuple[torch.Tensor, torch.Tensor]:
            inner.replay()
            first = y.clone()
            inner.replay()
            return first, y.clone()

        if providers.current_provider() is providers.CUDA:  # whose kernels read one state
            with pytest.raises(RuntimeError, match="another replay of a graph that draws random numbers cannot"):
                captured(twice)
        else:
            outer, (first, second) = captured(twice)
            outer.replay()
            assert not torch.equal(first, second)

    def test_a_capture_draws_nothing(self):
        torch.npu.manual_seed(7)
        captured(lambda: torch.rand(100, device="npu"))
        first = torch.rand(3, device="npu").cpu()
        torch.npu.manual_seed(7)
        assert torch.equal(first, torch.rand(3, device="npu").cpu())


def test_a_backward_pass_and_a_step_of_an_optimizer():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    twin.load_state_dict(model.state_dict())
    model.npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    reference = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.zeros(4, 8, device="npu"), torch.zeros(4, 1, device="npu")

    def step(x, y, model, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    side = side_stream()
    with torch.npu.stream(side):
        for _ in range(2):  # makes the optimizer's state
            step(x, y, model, optimizer)
            step(x.cpu(), y.cpu(), twin, reference)
    side.synchronize()
    graph = torch.npu.NPUGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.npu.graph(graph):
        loss = step(x, y, model, optimizer)
    for seed in range(4):
        x.copy_(npu(4, 8, seed=seed))
        y.copy_(npu(4, 1, seed=seed + 9))
        graph.replay()
        torch.testing.assert_close(loss.cpu(), step(x.cpu(), y.cpu(), twin, reference))
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_pinned_memory_is_read_by_each_replay():
    host = torch.zeros(1000).pin_memory()
    x = torch.empty(1000, device="npu")
    graph, y = captured(lambda: x.copy_(host, non_blocking=True) + 1)
    for value in (3, 4):
        host.fill_(value)
        graph.replay()
        assert y.cpu().tolist() == [value + 1] * 1000


@pytest.mark.two_devices
def test_two_devices_each_replay_their_graph():
    results = []
    for index in range(2):
        with torch.npu.device(index):
            x = torch.full((8,), float(index), device="npu")
            graph = torch.npu.NPUGraph()
            with torch.npu.graph(graph, stream=torch.npu.Stream()):
                y = x + 1
            results.append((graph, y, x))
    for graph, _, _ in results:
        graph.replay()
    assert [y.sum().item() for _, y, _ in results] == [8, 16]


@pytest.mark.two_devices
def test_what_is_called_from_another_device_is_captured_on_that_of_its_tensors():
    with torch.npu.device(1):
        x, image = torch.eye(4, device="npu"), torch.ones(1, 1, 4, 4, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, stream=torch.npu.Stream()), torch.npu.device(0):
            product, convolved, added = x @ x, conv2d(image, image), x + x
        x.mul_(3)
        image.mul_(2)
        graph.replay()
        assert [result.sum().item() for result in (product, convolved, added)] == [36, 64, 24]


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="torch before 2.12 has no torch.accelerator.Graph")
def test_graphs_of_torch_accelerator():
    x = torch.zeros(4, device="npu")
    graph = torch.accelerator.Graph()
    with torch.Stream(device="npu"), graph:
        x += 1
    graph.replay()
    graph.replay()
    assert x.sum().item() == 8


def test_the_graph_can_be_read(tmp_path):
    x = npu(4)
    graph, _ = captured(lambda: x.exp().cumsum(0))
    graph.debug_dump(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    if providers.current_provider() is providers.CUDA:
        names = ("0: void at::native::vectorized_elementwise_kernel", "exp_kernel_cuda", "scan")
    else:
        names = ("0: aten::exp", "1: aten::cumsum")
    assert text.startswith("digraph") and all(name in text for name in names)
    assert isinstance(graph, NPUGraph)

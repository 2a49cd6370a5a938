"""What PyTorch's own tests say of CUDA graphs that are captured by hand (the graph tests of test_cuda.py), of npu.

docs/development/cudagraph-tests.md lists them all: which test here, or elsewhere, checks the behaviour of which of
theirs, and which are about CUDA.
"""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch.nn.functional import dropout, rrelu

from tests.device.graphs.test_capture import captured, npu
from tests.device.native_kernels import sleep

pytestmark = pytest.mark.slow


def with_temporaries(x: torch.Tensor, value: float) -> torch.Tensor:
    return (x.clone() + value) + (x.clone() + value)


class TestCapture:
    @pytest.mark.skipif(not hasattr(torch.Stream, "is_capturing"), reason="streams do not say it before torch 2.12")
    def test_by_its_two_ends(self):
        stream, graph = torch.npu.Stream(), torch.npu.NPUGraph()
        with torch.npu.stream(stream):
            a = torch.ones(1000, device="npu")
            assert not stream.is_capturing()
            graph.capture_begin()
            assert stream.is_capturing()
            b = a
            for _ in range(10):
                b = b + 1
            graph.capture_end()
            assert not stream.is_capturing()
        torch.npu.current_stream().wait_stream(stream)
        graph.replay()
        assert b.sum().item() == 11000

    def test_reset_and_capture_again(self):
        x = torch.zeros(2000, device="npu")
        graph = torch.npu.NPUGraph(keep_graph=True)
        for amount in (1, 2):
            with torch.npu.graph(graph):
                x += amount
            for turn in range(1, 3):
                graph.instantiate()
                graph.replay()
                assert (x == amount * turn).all().item()
            graph.reset()
            x = torch.zeros(2000, device="npu")  # another address

    @pytest.mark.embedded
    def test_assignments(self):
        x, y, z = (torch.zeros(2, 2, device="npu") for _ in range(3))
        mask = torch.tensor([[True, False], [False, True]], device="npu")
        places = torch.tensor([0, 1], device="npu")

        def assign() -> None:
            x[0, 1] = 5.0
            y[mask] = 5.0
            z[places, places] = 5.0

        graph, _ = captured(assign)
        assert not any(tensor.any().item() for tensor in (x, y, z))
        graph.replay()
        assert x.tolist() == [[0, 5], [0, 0]] and y.tolist() == z.tolist() == [[5, 0], [0, 5]]

    @pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
    def test_another_thread_allocates_meanwhile(self, mode):
        x, graph, taken = torch.zeros(2000, device="npu"), torch.npu.NPUGraph(), []

        def allocate() -> None:
            with torch.npu.stream(torch.npu.Stream()):
                taken.append(torch.npu.caching_allocator_alloc(1024))

        with torch.npu.graph(graph, capture_error_mode=mode):
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
            y = x + x + 1
        torch.npu.caching_allocator_delete(taken[0])
        graph.replay()
        assert y.sum().item() == 2000

    def test_in_inference_mode(self):
        """Nothing of the graph stays an inference tensor that a later capture could not write."""
        x, ones = npu(10, 10), torch.ones(10, 10, device="npu")
        with torch.inference_mode():
            graphed = torch.npu.make_graphed_callables(lambda x: x + dropout(x, 0.5) * 0 + 1, (x,))
            assert torch.equal(graphed(ones), ones + 1)
        graphed = torch.npu.make_graphed_callables(lambda x: x + dropout(x, 0.5) * 0 + 1, (x,))
        assert torch.equal(graphed(ones), ones + 1)

    def test_recurrent_networks_with_dropout(self):
        model, x = torch.nn.LSTM(8, 8, 2, dropout=0.5).npu(), torch.ones(5, 3, 8, device="npu")
        graph, y = captured(lambda: model(x)[0])
        torch.npu.manual_seed(3)
        graph.replay()
        torch.npu.manual_seed(3)
        torch.testing.assert_close(y, model(x)[0])


class TestStreamsOfAutograd:
    """A parameter's gradient is added up on the stream where the parameter was used first."""

    def warmed_up(self, stream: torch.npu.Stream) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
        model, x = torch.nn.Linear(8, 8).npu(), torch.ones(4, 8, device="npu")
        with torch.npu.stream(stream):
            kept = model(x).sum()  # keeps the node that adds up
            kept.backward(retain_graph=True)
        model.zero_grad()
        torch.npu.synchronize()
        return model, x, kept

    @pytest.mark.skipif(
        not hasattr(torch.autograd.graph, "set_override_stale_capture_stream"),
        reason="this torch's autograd does not check it",
    )
    def test_one_outside_of_the_capture_is_an_error(self):
        model, x, _kept = self.warmed_up(torch.npu.default_stream())
        with pytest.raises(RuntimeError, match="stale reference to the default stream"):
            captured(lambda: model(x).sum().backward())

    @pytest.mark.skipif(
        not hasattr(torch.autograd.graph, "set_override_stale_capture_stream"), reason="this torch has no override"
    )
    @pytest.mark.parametrize("warm_up", ["default", "side"])
    def test_the_override(self, warm_up):
        stream = torch.npu.default_stream() if warm_up == "default" else torch.npu.Stream()
        model, x, _kept = self.warmed_up(stream)
        torch.autograd.graph.set_override_stale_capture_stream(True)
        try:
            graph, _ = captured(lambda: model(x).sum().backward())
            graph.replay()
        finally:
            torch.autograd.graph.set_override_stale_capture_stream(False)
        assert model.weight.grad.tolist() == [[4.0] * 8] * 8


class TestPools:
    @pytest.mark.parametrize("share", ["no", "the first graph's pool", "a handle"])
    def test_graphs_in_a_row(self, share):
        """The second reads what the first computed; other work comes between."""
        handle = torch.npu.graph_pool_handle() if share == "a handle" else None
        a = torch.ones(1000, device="npu")
        first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
        with torch.npu.graph(first, pool=handle):
            b = a.clone()
            for _ in range(5):
                b = with_temporaries(b, 1)
        between = b  # a graph's inputs are kept, also those in another graph's pool
        with torch.npu.graph(second, pool=first.pool() if share == "the first graph's pool" else handle):
            for _ in range(5):
                b = with_temporaries(b, 1)
        c = a
        for graph in (first, second, None):
            c = with_temporaries(with_temporaries(c, 3), 3)
            if graph is not None:
                graph.replay()
        assert between.sum().item() == 1000 * 94 and b.sum().item() == 1000 * 3070 and c.sum().item() == 1000 * 442

    def test_graphs_of_different_pools_replay_in_any_order_and_at_once(self):
        a, streams = torch.ones(100_000, device="npu"), [torch.npu.Stream() for _ in range(2)]

        def chain(value: float) -> torch.Tensor:
            b = a.clone()
            for _ in range(5):
                b = with_temporaries(b, value)
            return b

        graphs = [captured(lambda value=value: chain(value)) for value in (1, 2)]
        for order in ((0, 1), (1, 0)):
            for index in order:
                with torch.npu.stream(streams[index]):
                    graphs[index][0].replay()
            torch.npu.synchronize()
            assert [result.sum().item() for _, result in graphs] == [100_000 * 94, 100_000 * 156]

    def test_side_streams_allocate_from_the_graphs_pool(self):
        pools = {segment["segment_pool_id"] for segment in torch.npu.memory_snapshot()}
        x, side = npu(1 << 20), torch.npu.Stream()

        def fork() -> torch.Tensor:
            main, y = torch.npu.current_stream(), x + 1
            side.wait_stream(main)
            with torch.npu.stream(side):
                z = y * 2
            main.wait_stream(side)
            return z

        graph, z = captured(fork)
        graph.replay()
        torch.testing.assert_close(z.cpu(), (x.cpu() + 1) * 2)
        new = {segment["segment_pool_id"] for segment in torch.npu.memory_snapshot()} - pools - {(0, 0)}
        assert new == {graph.pool()}

    def test_a_mem_pool_itself(self):
        pool, graph, x = torch.npu.MemPool(), torch.npu.NPUGraph(), torch.ones(4, device="npu")
        with torch.npu.graph(graph, pool=pool):
            y = x + 1
        assert graph.pool() == pool.id and pool.use_count() == 2
        graph.replay()
        assert y.tolist() == [2] * 4
        graph.reset()
        assert pool.use_count() == 1

    def test_a_mem_pool_inside_a_capture(self):
        """What the block allocates is the graph's: it outlives the MemPool."""
        x, side, graph = torch.ones(4, device="npu"), torch.npu.MemPool(), torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x + 1
            with torch.npu.use_mem_pool(side):
                between = (y + 2) + 1
            z = between + 3
        del side, between
        gc.collect()
        torch.npu.empty_cache()
        others = [torch.zeros(4, device="npu") for _ in range(64)]
        graph.replay()
        assert z.tolist() == [8] * 4 and not any(other.any().item() for other in others)

    def test_memory_that_several_streams_use(self):
        """Freed during the capture while another stream may still use it, before or in the graph."""
        before, a, busy, side = (npu(3), torch.zeros(3, device="npu"), torch.npu.Stream(), torch.npu.Stream())
        with torch.npu.stream(busy):
            sleep(50, busy)
            before.record_stream(busy)
            before.fill_(1)
        del before

        def fork() -> torch.Tensor:
            main, b = torch.npu.current_stream(), a.clone()
            side.wait_stream(main)
            with torch.npu.stream(side):
                b.fill_(1)
                c = b + 1
                b.record_stream(side)
                del b
            main.wait_stream(side)
            return c

        graph, c = captured(fork)
        torch.npu.synchronize()
        graph.replay()
        assert c.tolist() == [2, 2, 2] and torch.zeros(3, device="npu").sum().item() == 0

    def test_a_graph_that_is_deleted_while_it_replays(self):
        x, stream = npu(1000), torch.npu.Stream()
        graph, y = captured(lambda: x.exp())
        with torch.npu.stream(stream):
            sleep(50, stream)
            graph.replay()
        del graph
        others = [torch.zeros(1000, device="npu") for _ in range(16)]
        torch.npu.synchronize()
        torch.testing.assert_close(y.cpu(), x.cpu().exp())
        assert not any(other.any().item() for other in others)


# Operators that draw, as functions of one tensor.
DRAWS = {
    "bernoulli": torch.bernoulli,
    "normal of two tensors": lambda x: torch.normal(x + 1, x),
    "normal": lambda x: torch.normal(x + 1, 1.0),
    "poisson": torch.poisson,
    "rand": torch.rand_like,
    "randint": lambda x: torch.randint(0, 3, x.shape, device="npu", dtype=torch.float),
    "randn": torch.randn_like,
    "randperm": lambda x: torch.randperm(x.numel(), device="npu").float(),
    "multinomial": lambda x: torch.multinomial(x, 20, replacement=True).float(),
    "dropout": lambda x: dropout(x, 0.3),
    "rrelu": lambda x: rrelu(x - 0.5, training=True),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(x),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(),
    "exponential_": lambda x: torch.empty_like(x).exponential_(),
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.3),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(),
    "random_": lambda x: torch.empty_like(x).random_(),
    "uniform_": lambda x: torch.empty_like(x).uniform_(),
}
# On a GPU it asks on the host whether no deviation is negative.
_MARKS = {"normal of two tensors": pytest.mark.embedded}


class TestRandomNumbers:
    @pytest.mark.parametrize("name", [pytest.param(name, marks=_MARKS.get(name, ())) for name in DRAWS])
    def test_replays_among_eager_calls_draw_what_eager_calls_draw(self, name):
        draw, x = DRAWS[name], torch.rand(200, device="npu")
        graph, (first, second) = captured(lambda: (draw(x), draw(x)))
        for seed in (5, 6):
            torch.npu.manual_seed(seed)
            expected = [draw(x).cpu() for _ in range(6)]
            torch.npu.manual_seed(seed)
            found = [draw(x).cpu()]
            graph.replay()
            found += [first.cpu(), second.cpu(), draw(x).cpu()]
            graph.replay()
            found += [first.cpu(), second.cpu()]
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))

    def test_on_two_streams(self):
        torch.npu.manual_seed(1234)
        expected = [torch.randn(64, device="npu").cpu() for _ in range(2)]
        graphs = [captured(lambda: torch.randn(64, device="npu")) for _ in range(2)]
        streams = [torch.npu.Stream() for _ in range(2)]
        torch.npu.manual_seed(1234)
        for (graph, _), stream in zip(graphs, streams, strict=True):
            with torch.npu.stream(stream):
                graph.replay()
            stream.synchronize()
        assert all(torch.equal(y.cpu(), other) for (_, y), other in zip(graphs, expected, strict=True))

    def test_after_a_capture_that_failed(self):
        x = torch.ones(1, device="npu")
        with pytest.raises(RuntimeError, match=r"item\(\) cannot be captured"):
            captured(lambda: (x + torch.rand(1, device="npu")).item())
        assert torch.randn(4, device="npu").shape == (4,)
        graph, y = captured(lambda: torch.randn(4, device="npu"))
        graph.replay()
        assert y.all().item()

    @pytest.mark.embedded
    def test_a_seed_in_the_graph(self):
        """Each replay seeds, as the same calls would; the capture does not."""

        def seeded() -> torch.Tensor:
            torch.npu.manual_seed(1)
            return torch.rand(8, device="npu")

        torch.npu.manual_seed(7)
        graph, y = captured(seeded)
        drawn = torch.rand(8, device="npu").cpu()
        torch.npu.manual_seed(7)
        assert torch.equal(torch.rand(8, device="npu").cpu(), drawn)
        for _ in range(2):
            graph.replay()
            replayed, following = y.cpu(), torch.rand(8, device="npu").cpu()
            assert torch.equal(replayed, seeded().cpu())
            assert torch.equal(following, torch.rand(8, device="npu").cpu())

    @pytest.mark.embedded
    def test_a_state_that_is_set_again(self):
        def twice() -> tuple[torch.Tensor, torch.Tensor]:
            state = torch.npu.get_rng_state()
            first = torch.rand(8, device="npu")
            torch.npu.set_rng_state(state)
            return first, torch.rand(8, device="npu")

        torch.npu.manual_seed(7)
        expected = [torch.rand(8, device="npu").cpu() for _ in range(2)]
        graph, (first, second) = captured(twice)
        torch.npu.manual_seed(7)
        for drawn in expected:
            graph.replay()
            assert torch.equal(first.cpu(), drawn) and torch.equal(second.cpu(), drawn)

    @pytest.mark.embedded
    def test_a_state_from_before_the_capture(self):
        torch.npu.manual_seed(3)
        state = torch.npu.get_rng_state()
        expected = torch.rand(8, device="npu").cpu()

        def draw() -> torch.Tensor:
            torch.npu.set_rng_state(state)
            return torch.rand(8, device="npu")

        graph, y = captured(draw)
        for _ in range(2):
            graph.replay()
            assert torch.equal(y.cpu(), expected)

    @pytest.mark.embedded
    def test_a_state_of_a_capture_has_no_value_outside_of_it(self):
        _, state = captured(torch.npu.get_rng_state)
        with pytest.raises(RuntimeError, match="asked for in the capture of a graph"):
            torch.npu.set_rng_state(state)

    def test_a_new_random_seed_is_refused(self):
        with pytest.raises(RuntimeError, match="a new random seed cannot be captured"):
            captured(torch.npu.seed)

    @pytest.mark.parametrize("reentrant", [False, True])
    @pytest.mark.embedded
    def test_checkpoints_draw_again_what_they_drew(self, reentrant):
        def function(x: torch.Tensor) -> torch.Tensor:
            return x * torch.sigmoid(torch.randn(4, device="npu"))

        def run() -> tuple[torch.Tensor, torch.Tensor]:
            x = torch.ones(4, device="npu", requires_grad=True)
            y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
            y.sum().backward()
            return y, x.grad

        torch.npu.manual_seed(42)
        expected = [run() for _ in range(2)]
        graph, (y, gradient) = captured(run)
        torch.npu.manual_seed(42)
        for eager_y, eager_gradient in expected:
            graph.replay()
            assert torch.equal(y, eager_y) and torch.equal(gradient, eager_gradient)
            assert torch.equal(gradient, y)

    def test_generators_that_share_states(self):
        """A graph draws from the states that were a generator's when it was captured."""

        def draw(generator: torch.Generator, old: torch.Generator, new: torch.Generator) -> list[torch.Tensor]:
            drawn = []
            for state in (new, old, old):
                generator.graphsafe_set_state(state)
                drawn.append(torch.rand(5, device="npu", generator=generator))
            return drawn

        def states(generator: torch.Generator) -> tuple[torch.Generator, torch.Generator, torch.Generator]:
            generator.manual_seed(0)
            return generator, generator.graphsafe_get_state(), generator.clone_state()

        eager = states(torch.Generator(device="npu"))
        default = states(torch.npu.default_generators[0])
        graph, drawn = captured(lambda: draw(*default))
        for _ in range(3):
            expected = draw(*eager)
            graph.replay()
            assert all(torch.equal(one, other) for one, other in zip(drawn, expected, strict=True))

    def test_the_default_state_when_it_was_captured(self):
        default = torch.npu.default_generators[0]
        before, other = default.graphsafe_get_state(), default.clone_state()
        try:
            default.graphsafe_set_state(other)
            graph, (y, z) = captured(lambda: (dropout(torch.ones(50, device="npu"), 0.5), torch.rand(50, device="npu")))
        finally:
            default.graphsafe_set_state(before)
        other.manual_seed(5)
        graph.replay()
        found = y.cpu(), z.cpu()
        default.manual_seed(5)
        expected = dropout(torch.ones(50, device="npu"), 0.5).cpu(), torch.rand(50, device="npu").cpu()
        assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


OPTIMIZERS = ["Adam", "AdamW", "ASGD", "Adamax", "NAdam", "RAdam", "Adadelta", "RMSprop", "Rprop"]


class TestOptimizers:
    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_capturable_steps(self, name):
        make = getattr(torch.optim, name)
        ours, theirs = (torch.nn.Parameter(torch.ones(3, device="npu")) for _ in range(2))
        optimizer, reference = make([ours], capturable=True), make([theirs], capturable=False)
        gradients = [npu(3, seed=seed) for seed in range(6)]
        for gradient in gradients[:3]:
            ours.grad, theirs.grad = gradient.clone(), gradient.clone()
            optimizer.step(), reference.step()
        graph, _ = captured(optimizer.step)
        for gradient in gradients[3:]:
            ours.grad.copy_(gradient)
            graph.replay()
            theirs.grad = gradient.clone()
            reference.step()
        torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_a_step_that_counts_on_the_cpu_is_refused(self, name):
        """Also if only one group of parameters does."""
        first, second = (torch.nn.Parameter(torch.ones(3, device="npu")) for _ in range(2))
        groups = [{"params": [first], "capturable": True}, {"params": [second], "capturable": False}]
        optimizer = getattr(torch.optim, name)(groups)
        first.grad, second.grad = torch.ones_like(first), torch.ones_like(second)
        optimizer.step()
        with pytest.raises(RuntimeError, match=f"a step of {name} cannot be captured .* capturable=True"):
            captured(optimizer.step)
        optimizer.step()


class TestGraphedCallables:
    @pytest.mark.parametrize("amp", [False, True], ids=["", "autocast"])
    def test_modules_functions_and_a_loss(self, amp):
        """With dropout, arguments in a dict, some unused, and a module without parameters."""

        class OfDict(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.1))

            def forward(self, arguments):
                return self.net(arguments["x"])

        class Gather(torch.nn.Module):
            def forward(self, x):
                places = torch.arange(x.size(0), device=x.device).view(-1, 1).repeat(1, x.size(1))
                return {"output": torch.gather(x, 0, places)}

        def model() -> torch.nn.Sequential:
            torch.manual_seed(5)
            return torch.nn.Sequential(OfDict(), torch.nn.Linear(8, 4), Gather()).npu()

        ours, theirs = model(), model()
        loss, x, unused = torch.nn.functional.mse_loss, npu(6, 16), npu(6, 8, seed=9).requires_grad_()
        with torch.autocast("npu", dtype=torch.bfloat16, enabled=amp, cache_enabled=False):
            *parts, graphed_loss = torch.npu.make_graphed_callables(
                (ours[0], ours[1], ours[2], loss),
                (
                    ({"x": x, "unused": unused},),
                    (npu(6, 8).requires_grad_(),),
                    (npu(6, 4).requires_grad_(),),
                    (npu(6, 4).requires_grad_(), npu(6, 4)),
                ),
                allow_unused_input=True,
            )
        assert parts == list(ours)
        for each, criterion in ((ours, graphed_loss), (theirs, loss)):
            torch.npu.manual_seed(5)
            optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
            for seed in range(5):
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast("npu", dtype=torch.bfloat16, enabled=amp, cache_enabled=False):
                    result = each({"x": npu(6, 16, seed=seed), "unused": unused})["output"]
                    criterion(result, npu(6, 4, seed=seed + 9)).backward()
                optimizer.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other)
        ours.eval(), theirs.eval()
        torch.testing.assert_close(ours({"x": x})["output"], theirs({"x": x})["output"])

    def test_one_pool_for_several_calls(self):
        pool = torch.npu.graph_pool_handle()
        torch.manual_seed(5)
        models = [torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()).npu() for _ in range(3)]
        twins = [torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()).npu() for _ in range(3)]
        for model, twin in zip(models, twins, strict=True):
            twin.load_state_dict(model.state_dict())
            torch.npu.make_graphed_callables(model, (npu(4, 8),), pool=pool)
        for seed, (model, twin) in enumerate(zip(models, twins, strict=True)):
            x = npu(4, 8, seed=seed)
            model(x).norm().backward()
            twin(x).norm().backward()
            for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad)

    @pytest.mark.parametrize("as_module", [True, False])
    def test_graphs_go_with_the_callable(self, as_module):
        """At once, by reference counts: a garbage collection could come in the middle of another capture."""

        def live() -> int:
            return sum(isinstance(each, torch.npu.NPUGraph) for each in gc.get_objects())

        def make_and_drop() -> None:
            module = torch.nn.Linear(8, 8).npu()
            target = module if as_module else lambda x: module(x)
            torch.npu.make_graphed_callables(target, (npu(4, 8).requires_grad_(),))

        gc.collect()
        before = live()
        gc.disable()
        try:
            make_and_drop()
            assert live() == before
        finally:
            gc.enable()

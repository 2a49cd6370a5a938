"""What PyTorch's own tests say of torch.compile with CUDA graphs (test_cudagraph_trees.py, test_cudagraphs.py), of npu.

docs/development/cudagraph-tests.md lists them all: which test here, or elsewhere, checks the behaviour of which of
theirs, and which are about CUDA or about the insides of PyTorch's trees of graphs.
"""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.utils import fresh_cache

from inductor_npu.runtime.graph_capture.statistics import graph_captures

pytestmark = pytest.mark.slow


def captured(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)


def npu(*sizes: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).npu().requires_grad_(grad)


def check(results, expected) -> None:
    torch.testing.assert_close(results, expected)


def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


class TestCalls:
    def test_a_function_without_arguments(self, counts):
        compiled = captured(lambda: torch.ones(20, device="npu") * 3)
        for _ in range(4):
            check(compiled(), torch.full((20,), 3.0, device="npu"))
        assert counts() == (1, 1, 3, 0)

    def test_random_numbers_without_arguments_follow_the_seed(self):
        compiled = captured(lambda: torch.rand(20, device="npu"))
        compiled(), compiled()
        torch.npu.manual_seed(0)
        first = [compiled().cpu() for _ in range(3)]
        torch.npu.manual_seed(0)
        second = [compiled().cpu() for _ in range(3)]
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
        assert not torch.equal(first[0], first[1])

    def test_samples_are_those_of_the_eager_operator(self):
        probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4], device="npu")

        def sample(p):
            return torch.multinomial(p, 5, replacement=True)

        compiled = captured(sample)
        for _ in range(3):
            compiled(probabilities)
        torch.npu.manual_seed(1)
        expected = [sample(probabilities).cpu() for _ in range(2)]
        torch.npu.manual_seed(1)
        assert all(torch.equal(compiled(probabilities).cpu(), each) for each in expected)

    def test_graphs_on_both_sides_of_a_break(self, counts):
        def function(x):
            y = cube(x)
            torch._dynamo.graph_break()
            return x + y

        compiled = captured(function)
        for seed in range(4):
            x = npu(4, 4, seed=seed)
            check(compiled(x), function(x))
        assert counts() == (2, 2, 6, 0)

    def test_a_function_called_twice_by_another(self):
        def inner(x):
            torch._dynamo.graph_break()
            return cube(x)

        def outer(x):
            y = inner(x)
            return y + inner(y)

        compiled = captured(outer)
        for seed in range(5):
            x = npu(4, 4, seed=seed)
            check(compiled(x), outer(x))

    def test_a_branch_that_values_decide(self):
        """One branch is replayed while the other is captured."""

        def function(x):
            y = x + x
            return y + 10 if y.sum() > 0 else y - 10

        compiled = captured(function)
        for value in (-1.0, -1.0, 2.0, 2.0, 2.0, -3.0, 2.0):
            x = torch.full((4, 4), value, device="npu")
            check(compiled(x), function(x))

    def test_separate_sizes(self, counts):
        compiled = captured(lambda x, y: (x + 1) @ y, dynamic=False)
        for size in (20, 20, 20, 40, 40, 40, 20):
            x, y = npu(size, size), npu(size, size, seed=1)
            check(compiled(x, y), (x + 1) @ y)
        assert counts() == (2, 2, 5, 0)

    def test_what_was_compiled_only(self, counts):
        """`torch._dynamo.run` compiles nothing more, and replays."""
        compiled = captured(lambda x: x @ x)
        arguments = [npu(10, 10, seed=seed) for seed in range(6)]
        for x in arguments[:3]:
            compiled(x)
        frozen = torch._dynamo.run(compiled)
        for x in arguments[3:]:
            check(frozen(x), x @ x)
        assert counts() == (1, 1, 5, 0)

    def test_on_a_stream_of_the_program(self):
        x = npu(256, 256)
        compiled, stream = captured(lambda x: (x @ x).relu() @ x), torch.npu.Stream()
        torch.npu.synchronize()
        for _ in range(4):
            with torch.npu.stream(stream):
                result = compiled(x) + 1
            stream.synchronize()
            torch.testing.assert_close(result, (x @ x).relu() @ x + 1, rtol=1e-4, atol=1e-3)

    def test_threads_at_once(self):
        compiled, failures = captured(lambda x, y: torch.sin(x) + torch.cos(y)), []
        barrier = threading.Barrier(3)

        def work(seed: int) -> None:
            x, y = npu(4, 4, seed=seed), npu(4, 4, seed=seed + 10)
            barrier.wait()
            for _ in range(3):
                result = compiled(x, y)
                if not torch.allclose(result, torch.sin(x) + torch.cos(y)):
                    failures.append(seed)

        compiled(npu(4, 4), npu(4, 4))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures

    def test_the_cache_of_compiled_graphs(self, counts):
        """What comes from Inductor's cache is captured, too, forward and backward."""

        def function(x):
            return torch.sin(x * 2) * x

        with fresh_cache():
            for _ in range(2):
                torch._dynamo.reset()
                compiled = captured(function)
                for seed in range(3):
                    x = npu(4, 4, seed=seed, grad=True)
                    compiled(x).sum().backward()
                    check(x.grad, torch.autograd.grad(function(x).sum(), x)[0])
        warmed, _, replays, skipped = counts()
        assert (warmed, replays, skipped) == (4, 8, 0)


class TestResults:
    def test_a_parameter_and_a_part_of_it(self):
        model = torch.nn.Linear(10, 10).npu()

        def function(x):
            return model.weight.T @ x, model.weight.T, model.weight[0:4]

        compiled, last = captured(function), captured(lambda x: x[2:])
        for seed in range(4):
            x = npu(10, 10, seed=seed, grad=True)
            torch.compiler.cudagraph_mark_step_begin()
            product, whole, part = compiled(x)
            assert storage(whole) == storage(part) == storage(model.weight)
            rest = last(product)
            assert storage(rest) == storage(product)
            rest.sum().backward()
            check(rest, (model.weight.T @ x)[2:])
            check(x.grad, torch.autograd.grad((model.weight.T @ x)[2:].sum(), x)[0])

    def test_views_across_graphs_share_their_storage(self):
        def function(x):
            x = x * 20
            y = x * 10
            first, second = x[0], y[0]
            torch._dynamo.graph_break()
            return x, first, x[2:], second, y[2:]

        compiled = captured(function)
        for seed in range(4):
            x = npu(20, 20, seed=seed)
            results = compiled(x)
            check(results, function(x))
            assert storage(results[0]) == storage(results[1]) == storage(results[2])
            assert storage(results[3]) == storage(results[4]) != storage(results[0])

    def test_empty_results(self):
        def function(x):
            return x * 3, torch.zeros(0, device="npu"), torch.zeros(100, device="npu")[0:0], torch.tensor([])

        compiled = captured(function)
        for seed in range(3):
            x = npu(4, seed=seed)
            check(compiled(x), function(x))

    def test_memory_without_a_kernel(self):
        """Results that no kernel writes: new memory, or a view of an argument."""
        fresh, view = captured(torch.empty_like), captured(lambda x: x.reshape(1, -1, 4))
        for seed in range(4):
            x = npu(6, 4, seed=seed)
            result = fresh(x)
            result.fill_(seed)
            assert result.shape == x.shape and result.data_ptr() != x.data_ptr()
            check(view(x), x.reshape(1, -1, 4))
            check(result, torch.full_like(x, seed))

    def test_results_are_freed_with_their_last_view(self):
        """The pool of the graphs is their memory; a result that was moved out of it lives as long as its views."""
        compiled = captured(lambda x: x + x)
        x = npu(1 << 18)
        for _ in range(3):
            compiled(x)
        gc.collect()
        before = torch.npu.memory_allocated()
        view = compiled(x)[5:]
        compiled(x)  # moves it
        assert torch.npu.memory_allocated() > before
        check(view, (x + x)[5:])
        del view
        gc.collect()
        assert torch.npu.memory_allocated() == before

    def test_results_that_are_inputs_of_the_next_call(self):
        compiled = captured(lambda x, bias: x * 0.99 + bias)
        x = expected = npu(8)
        for seed in range(8):
            torch.compiler.cudagraph_mark_step_begin()
            bias = npu(8, seed=seed)
            x, expected = compiled(x, bias), expected * 0.99 + bias
            check(x, expected)

    def test_results_from_before_a_new_step_name_the_remedy(self):
        compiled = captured(cube)
        x = npu(4)
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            old = compiled(x).detach()
        torch.compiler.cudagraph_mark_step_begin()
        compiled(x)
        with pytest.raises(RuntimeError, match=r"overwritten by a later call.*mark_step_begin.*clone\(\)"):
            old + old

    def test_without_steps_nothing_is_overwritten(self):
        """Where PyTorch's trees raise, results move."""
        compiled = captured(cube)
        x = npu(4)
        results = [compiled(x) for _ in range(5)]
        for result in results:
            check(result + result, cube(x) * 2)

    def test_hooks_do_not_stay_with_a_result(self):
        compiled = captured(lambda x: x * x)
        x = npu(4, grad=True)
        for _ in range(5):
            result = compiled(x)
            assert result._backward_hooks is None
            result.register_hook(lambda gradient: None)

    def test_casts_of_a_result_are_not_kept(self):
        """Autocast would find the cast of an earlier result at the same address."""
        compiled = captured(lambda x: x + x)
        for _ in range(3):
            result = compiled(npu(4, 4, grad=True))
        other = npu(4, 4, seed=2)
        with torch.autocast("npu", dtype=torch.bfloat16):
            before = result @ other
            result.detach().zero_()
            assert before.any().item() and not (result @ other).any().item()

    def test_a_result_that_outlives_the_function(self):
        def make():
            compiled = captured(lambda x: (x + 3, x * 10))
            x = npu(4)
            compiled(x), compiled(x)
            return compiled(x), (x + 3, x * 10)

        results, expected = make()
        torch._dynamo.reset()
        gc.collect()
        torch.npu.empty_cache()
        other = torch.zeros(1 << 16, device="npu")
        check(results, expected)
        assert not other.any().item()


class TestMutation:
    def test_a_buffer_and_an_argument(self):
        class Adds(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.total = torch.ones(10, device="npu")

            def forward(self, x):
                self.total.add_(x)
                x.mul_(2)
                return self.total + x

        model, twin = Adds(), Adds()
        compiled = captured(model)
        for seed in range(5):
            x = npu(10, seed=seed)
            copy = x.clone()
            check(compiled(x), twin(copy))
            check((x, model.total), (copy, twin.total))

    def test_the_result_of_another_graph(self):
        plus, add = captured(lambda x: x + 1), captured(lambda x: x.add_(2))
        for seed in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = npu(4, seed=seed)
            between = plus(x)
            result = add(between)
            check(result, x + 3)
            assert result.data_ptr() == between.data_ptr()
        copy = plus(x).clone()  # not a graph's any longer
        add(copy)
        check(copy, x + 3)

    def test_data_of_a_parameter(self):
        class Masked(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(npu(4, 4))
                self.register_buffer("mask", torch.tril(torch.ones(4, 4, device="npu")))

            def forward(self, x):
                with torch.no_grad():
                    self.weight.data *= self.mask
                return x @ self.weight

        model, x = Masked().eval(), npu(4, 4, seed=1)
        compiled = captured(model)
        with torch.no_grad():
            for _ in range(4):
                check(compiled(x), x @ torch.tril(npu(4, 4)))

    def test_an_out_argument_of_another_dtype(self):
        x, y = npu(1, 2, 9, 7) > 0, npu(1, 2, 9, 7, seed=1) > 0
        out, expected = (torch.zeros(1, 2, 9, 7, dtype=torch.float16, device="npu") for _ in range(2))
        compiled = captured(lambda x, y, out: torch.logical_xor(x, y, out=out))
        torch.logical_xor(x, y, out=expected)
        for _ in range(3):
            compiled(x, y, out)
            check(out, expected)
            out.zero_()

    def test_a_number_of_the_cpu_that_is_written(self):
        compiled = captured(lambda x, y: x.copy_(y))
        for value in range(4):
            x, y = torch.tensor(-1), torch.tensor(value, device="npu")
            compiled(x, y)
            assert x.item() == value and x.device.type == "cpu"

    def test_an_element_at_a_changing_place(self):
        def function(place, x):
            x[place] = -1
            return x

        compiled, x = captured(function, fullgraph=True), torch.zeros(7, device="npu")
        for place in (2, 3, 4, 5, 6, -7):
            compiled(place, x)
            assert x[place].item() == -1
        assert x.sum().item() == -6

    def test_a_constant_and_a_dead_write(self):
        def function(x, y):
            constant = torch.tensor(1)
            constant.add_(2)
            copy = x.clone()
            nothing = copy[0:0]
            copy.fill_(2)
            nothing.fill_(3)
            return x * y * 0 + constant, copy, nothing

        compiled = captured(function)
        for seed in range(3):
            x, y = npu(5, seed=seed), npu(5, seed=seed + 4)
            check(compiled(x, y), function(x, y))

    def test_sizes_changed_in_place(self):
        def function(x):
            x = x.clone()
            x.resize_(20)
            return x.fill_(2)

        compiled = captured(function)
        for _ in range(4):
            check(compiled(torch.empty(0, device="npu")), torch.full((20,), 2.0, device="npu"))


# Indexing operators, and what they do to the same arguments.
INDEXING = {
    "index_put": lambda x, i, v: x.index_put((i,), v),
    "index_put, accumulated": lambda x, i, v: x.index_put((i,), v, accumulate=True),
    "index_put_ of bool": lambda x, i, v: torch.zeros_like(x, dtype=torch.bool).index_put_([i], v > 0, True),
    "a mask": lambda x, i, v: (x + 2).index_put((torch.tensor([True, False] * 2, device="npu"),), v[:2]) * 2 + x.sum(),
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
    "index_fill": lambda x, i, v: x.index_fill(0, i, 7.0),
    "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(4, 8), v),
    "scatter of a number": lambda x, i, v: x.scatter(0, i[:, None].expand(4, 8), 3.0),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(4, 8), v),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(4, 8), v, "amax"),
    "masked_scatter": lambda x, i, v: x.masked_scatter(x > 0, v),
}


@pytest.mark.parametrize("deterministic", [False, True], ids=["", "deterministic"])
@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name, deterministic):
    function = INDEXING[name]
    compiled = captured(function)
    place = torch.tensor([3, 1, 0, 2], device="npu")
    torch.use_deterministic_algorithms(deterministic)
    try:
        for seed in range(3):
            x, values = npu(4, 8, seed=seed), npu(4, 8, seed=seed + 5)
            check(compiled(x, place, values), function(x, place, values))
    finally:
        torch.use_deterministic_algorithms(False)


class TestArguments:
    def test_parameters_that_come_and_go(self):
        """Another parameter, and the first one again: values are those of the parameter that is used."""
        compiled = captured(lambda x, weight: x * weight)
        first, second = (torch.nn.Parameter(npu(2, 2, seed=seed)) for seed in (1, 2))
        for weight in [first] * 4 + [second] * 4 + [first] * 4:
            x = npu(2, 2)
            result = compiled(x, weight)
            result.sum().backward()
            check(result, x * weight)
            check(weight.grad, x)
            weight.grad = None

    @pytest.mark.parametrize("name", ["weight", "running_mean"])
    def test_attributes_of_a_module_that_are_replaced(self, name):
        model = torch.nn.BatchNorm1d(2, device="npu")
        compiled = captured(lambda x: model(x), fullgraph=True)
        before, after = getattr(model, name), torch.rand(2, device="npu")
        for value in (before, torch.nn.Parameter(after) if name == "weight" else after, before):
            setattr(model, name, value)
            for _ in range(3):
                x = npu(6, 2)
                expected = torch.nn.functional.batch_norm(x, None, None, model.weight, model.bias, training=True)
                check(compiled(x), expected)

    def test_many_parameters_in_turn(self):
        compiled = captured(lambda x, weight: x * weight)
        x = npu(2, 2)
        for seed in range(8):
            weight = torch.nn.Parameter(npu(2, 2, seed=seed))
            check(compiled(x, weight), x * weight)

    def test_an_address_that_is_marked_as_fixed(self):
        fixed = npu(2, 2, seed=9)
        torch._dynamo.mark_static_address(fixed)
        compiled = captured(lambda x, y: torch.cos(x) + y)
        for x in [npu(2, 2, seed=seed, grad=True) for seed in range(5)]:
            result = compiled(x, fixed)
            result.sum().backward()
            check(result, torch.cos(x) + fixed)
        (forward,) = (each for name, each in graph_captures().items() if name.startswith("forward"))
        assert forward.captured == 1

    def test_one_that_another_graph_made_or_not(self):
        """A graph that read the memory of another one reads what the program made, next time."""
        first, second = captured(lambda x: (x + 1, x + 2)), captured(cube)
        x = npu(4)
        for _ in range(3):
            check(second(first(x)[0]), cube(x + 1))
        check(second(first(x)[1]), cube(x + 2))
        check(second(torch.zeros_like(x)), torch.zeros_like(x))
        check(second(first(x)[0]), cube(x + 1))

    def test_two_that_are_one(self):
        plus = captured(lambda x: x + 1)

        def adds(x, y):
            y.add_(1)
            return x + y

        compiled = captured(adds)
        for seed in range(4):
            one, other = plus(npu(4, seed=seed)), plus(npu(4, seed=seed + 5))
            expected = adds(one.clone(), other.clone())
            check(compiled(one, other), expected)
            both = npu(4, seed=seed)
            copy = both.clone()
            check(compiled(both, both), adds(copy, copy))

    def test_a_constant_that_is_folded(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.arange(10.0, device="npu"))

            def forward(self, x):
                return self.weight, self.weight[0:2], x + 2

        model = Model()
        compiled = captured(model)
        with inductor_config.patch(freezing=True), torch.no_grad():
            for seed in range(3):
                x = npu(3, seed=seed)
                check(compiled(x), model(x))

    def test_a_tensor_of_meta(self, counts):
        compiled = captured(lambda x, y: (x * 2, y * 3))
        x = torch.empty(1, 16, 8, device="meta")
        for seed in range(4):
            y = npu(64, seed=seed)
            shape, result = compiled(x, y)
            assert shape.shape == x.shape and shape.device.type == "meta"
            check(result, y * 3)
        assert counts() == (1, 1, 3, 0)

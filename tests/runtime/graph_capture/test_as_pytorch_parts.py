"""The second half of what PyTorch's own tests say of torch.compile with CUDA graphs, of npu: graphs in parts, custom
operators, sizes, options, training (see test_as_pytorch.py).
"""

from __future__ import annotations

import gc

import pytest
import torch
from torch._inductor import config as inductor_config
from torch.utils.checkpoint import checkpoint

from inductor_npu.providers import CUDA, current_provider
from inductor_npu.runtime.graph_capture.statistics import graph_captures
from tests.runtime.graph_capture.test_as_pytorch import captured, check, cube, npu
from tests.torch_features import needs_torch

pytestmark = pytest.mark.slow

HAS_OVERRIDES = pytest.mark.skipif(
    not hasattr(torch._dynamo, "override_cudagraphs"), reason="torch 2.11 has no override_cudagraphs"
)


def expected_captures(functions: int) -> range:
    """One for each; on a GPU, whose memory is reused later, one more where what the CPU computed has moved."""
    return range(functions, (2 * functions if current_provider() is CUDA else functions) + 1)


def around_the_cpu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y_cpu = (y + 1).cpu() + 1
    return x + 1 + y + x @ y + y_cpu.npu()


class TestParts:
    def test_forward_and_backward(self, counts):
        """Two parts forward, one backward."""
        model = torch.nn.Linear(16, 16).npu()

        def function(x):
            y = x + 2
            return model(x + 1 + x @ y + (y.cpu() + 1).npu())

        compiled, x = captured(function), npu(16, 16)
        for _ in range(5):
            gradients = []
            for run in (function, compiled):
                run(x).square().sum().backward()
                gradients.append(model.weight.grad.clone())
                model.zero_grad()
            torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-2)
        warmed_up, captures, replayed, _ = counts()
        assert (warmed_up, replayed) == (3, 12)
        assert captures in expected_captures(3)

    def test_what_the_cpu_computed_is_saved_for_backward(self):
        model = torch.nn.Linear(8, 8).npu()

        def function(x):
            between = (x * 2).cpu().npu()
            return model(between * between)

        compiled = captured(function)
        for seed in range(5):
            x = npu(4, 8, seed=seed, grad=True)
            compiled(x).sum().backward()
            check(x.grad, torch.autograd.grad(function(x).sum(), x)[0])

    def test_sizes_of_parts(self, counts):
        compiled = captured(around_the_cpu, dynamic=True)
        for size in (3, 4, 3, 4, 3, 4):
            x, y = npu(size, size), npu(size, size, seed=size)
            check(compiled(x, y), around_the_cpu(x, y))
        warmed_up, captures, replayed, skipped = counts()
        assert (warmed_up, replayed, skipped) == (4, 8, 0)
        assert captures in expected_captures(4)

    def test_a_number_among_the_arguments(self):
        compiled = captured(lambda x, y, n: around_the_cpu(x, y) + n)
        x, y = npu(3, 3), npu(3, 3, seed=1)
        for number in (5, 6, 7, 7, 7):
            check(compiled(x, y, number), around_the_cpu(x, y) + number)

    def test_independent_work_of_the_cpu_does_not_cut(self, counts):
        def function(x, y, z, weight, weight_cpu):
            return 2 * ((x + 1) @ weight + x), (y + 1) @ weight_cpu, 2 * ((z + 1) @ weight + z)

        compiled = captured(function)
        arguments = npu(3, 3), torch.randn(3, 3), npu(3, 3, seed=1), npu(3, 3, seed=2), torch.randn(3, 3)
        for _ in range(4):
            check(compiled(*arguments), function(*arguments))
        assert counts() == (1, 1, 3, 0)

    @pytest.mark.parametrize("where", ["first", "second", "computed", "two"])
    def test_a_number_of_the_cpu_is_part_of_the_graph(self, where, counts):
        """A tensor of the CPU without dimensions is moved to npu before the graph, and does not cut it."""
        function = {
            "first": lambda s, x: s + x,
            "second": lambda s, x: (x + 1, x + s),
            "computed": lambda s, x: x + x + (s + 1),
            "two": lambda s, x: (x + s, x * torch.tensor(3.0)),
        }[where]
        compiled = captured(function)
        for value in range(4):
            number, x = torch.tensor(float(value)), npu(2, 2)
            check(compiled(number, x), function(number, x))
        assert counts()[:2] == (1, 1) and counts()[3] == 0

    def test_a_parameter_of_the_cpu_trains(self):
        weight, scale = npu(4, 4, grad=True), torch.tensor(1.5, requires_grad=True)

        def function(x):
            y = x @ weight
            return y * scale + (y.sum().cpu() * scale).npu()

        compiled = captured(function)
        for seed in range(4):
            x = npu(4, 4, seed=seed)
            expected = torch.autograd.grad(function(x).sum(), (weight, scale))
            check(torch.autograd.grad(compiled(x).sum(), (weight, scale)), expected)

    def test_values_that_decide_sizes(self):
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            places, number = captured(lambda x: x.nonzero()), captured(lambda x: x + 1 + (x * 2).item())
            for values in ([1, 0, 2], [1, 0, 0], [0, 0, 3], [1, 1, 1]):
                x = torch.tensor(values, device="npu")
                check(places(x), x.nonzero())
                check(number(x[0]), x[0] * 3 + 1)

    def test_a_condition(self):
        def function(p, x):
            return torch.cond(p, torch.cos, torch.sin, [x + 1]) * 2

        compiled = captured(function)
        for value in (True, True, False, True):
            p, x = torch.tensor([value], device="npu"), npu(2, 3)
            check(compiled(p, x), function(p, x))

    def test_lists_of_tensors_and_reused_memory(self):
        def function(x, y):
            first = torch._foreach_abs([x, y])[0] * x
            u = ((y + 1).cpu() + 1).npu() @ y + 3
            return first + (u.cpu() + 2).npu()

        compiled = captured(function)
        for seed in range(4):
            x, y = npu(4, 4, seed=seed), npu(4, 4, seed=seed + 5)
            check(compiled(x, y), function(x, y))

    def test_decompositions_of_the_library(self):
        """eigh has no kernel, and is the library's."""
        compiled, function = captured(lambda x: torch.linalg.eigh(x @ x.T)[0]), lambda x: torch.linalg.eigh(x @ x.T)[0]
        for seed in range(4):
            x = npu(4, 4, seed=seed)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-3, atol=1e-4)


@pytest.fixture
def operators():
    """Operators of torch.ops.as_pytorch, for one test."""
    with torch.library._scoped_library("as_pytorch", "FRAGMENT") as library:

        def define(schema: str, function, shapes=torch.empty_like, *, unsafe: bool = False):
            name = schema.partition("(")[0]
            library.define(schema, tags=(torch._C.Tag.cudagraph_unsafe,) if unsafe else ())
            library.impl(name, function, "PrivateUse1")
            torch.library.register_fake(f"as_pytorch::{name}", shapes, lib=library)
            return getattr(torch.ops.as_pytorch, name)

        yield define


class TestCustomOperators:
    def test_one_that_can_be_captured_does_not_cut(self, operators, counts):
        twice = operators("twice(Tensor x) -> Tensor", lambda x: (x + 1) * 2)
        compiled = captured(lambda x: 2 * twice((x + 10) * 2) + 1, fullgraph=True)
        for size in (4, 4, 4, 7, 7, 7, 5, 5, 5):
            x = npu(size, size)
            check(compiled(x), 2 * twice((x + 10) * 2) + 1)
        assert counts()[1] == counts()[0] and counts()[3] == 0

    def test_one_that_is_marked_unsafe_cuts(self, operators, counts):
        moves = operators("moves(Tensor x) -> Tensor", lambda x: ((x.cpu() + 1) * 2).npu() / 255, unsafe=True)
        compiled = captured(lambda x: moves(moves((x + 10) * 2) + 1) + 1, fullgraph=True)
        for seed in range(4):
            x = npu(3, 8, 8, seed=seed)
            check(compiled(x), moves(moves((x + 10) * 2) + 1) + 1)
        assert counts()[0] == 3 and counts()[3] == 0

    def test_with_sizes_of_its_argument(self, operators):
        same = operators("same(Tensor x) -> Tensor", torch.clone, unsafe=True)

        def padded(x):
            result = torch.zeros(32, x.shape[1], device=x.device)
            result[: x.shape[0]] = x
            return result

        pad = operators("pad(Tensor x) -> Tensor", padded, lambda x: x.new_empty(32, x.shape[1]))
        compiled = captured(lambda x: pad(same(x)) + 1, dynamic=True)
        for rows in (20, 10, 25, 20, 10, 25, 20):
            x = npu(rows, 16, seed=rows)
            check(compiled(x), padded(x) + 1)

    def test_one_that_writes_its_arguments(self, operators):
        def sine(x, out):
            out.copy_(x.sin())
            return x.sin()

        schema = "into(Tensor x, Tensor(a!) out) -> Tensor"
        into = operators(schema, sine, lambda x, out: torch.empty_like(x), unsafe=True)

        def function(x):
            x = x * 3
            out = torch.empty_like(x)
            y = into(x, out)
            return y / 3, out, out.sum()

        compiled = captured(function, fullgraph=True)
        for seed in range(4):
            x = npu(3, seed=seed)
            check(compiled(x), function(x))

    def test_what_lives_across_the_parts(self, operators):
        pair = operators(
            "pair(Tensor(a!) x) -> (Tensor, Tensor)",
            lambda x: (x.add_(1) + 1, x + 2),
            lambda x: (torch.empty_like(x), torch.empty_like(x)),
        )
        join = operators("join(Tensor x, Tensor y) -> Tensor", lambda x, y: x + 2 * y, lambda x, y: x + y, unsafe=True)

        def function(x):
            first, second = pair(x + 1)
            y = join(first + 1, second)
            third, fourth = pair(y + first + second)
            return join(third + fourth, y)

        compiled = captured(function)
        for seed in range(5):
            x = npu(2, 2, seed=seed)
            check(compiled(x), function(x))

    def test_operators_that_the_program_names(self, operators, counts):
        """`custom_should_partition_ops` cuts around others, by name."""
        same = operators("plain(Tensor x) -> Tensor", torch.clone)
        with inductor_config.patch(custom_should_partition_ops=["as_pytorch::plain"]):
            compiled = captured(lambda x: same(x + 1) + 1, fullgraph=True)
            for seed in range(3):
                x = npu(4, seed=seed)
                check(compiled(x), x + 2)
        assert counts()[0] == 2 and counts()[3] == 0


class TestOptions:
    def test_sizes_that_are_to_be_captured(self, counts):
        with inductor_config.patch({"triton.cudagraph_capture_sizes": (2, 5, 7)}):
            compiled = captured(lambda x: x + 1, dynamic=True)
            for _ in range(3):
                for rows in range(2, 9):
                    x = npu(rows, 5, seed=rows)
                    torch._dynamo.mark_dynamic(x, 0)
                    torch._dynamo.mark_static(x, 1)
                    check(compiled(x), x + 1)
        assert counts() == (3, 3, 6, 0)

    def test_combinations_of_sizes_that_are_to_be_captured(self, counts):
        with inductor_config.patch({"triton.cudagraph_capture_sizes": ((2, 3), (4, 5))}):
            compiled = captured(lambda x: x + 1, dynamic=True)
            for _ in range(3):
                for rows, columns in ((2, 3), (3, 2), (4, 5), (5, 4), (4, 3), (2, 5)):  # in the order of the graph
                    x = npu(rows, columns)
                    check(compiled(x), x + 1)
        assert counts() == (2, 2, 4, 0)

    def test_dynamic_graphs_are_skipped(self, counts):
        with inductor_config.patch({"triton.cudagraph_skip_dynamic_graphs": True}):
            compiled = captured(lambda x: x + 2, dynamic=True)
            for size in (10, 11, 12):
                x = npu(size)
                check(compiled(x), x + 2)
        assert counts() == (0, 0, 0, 0)

    @pytest.mark.skipif(
        not hasattr(inductor_config.triton, "cudagraph_min_partition_size"), reason="torch 2.11 has no such setting"
    )
    def test_small_parts_are_skipped(self, counts):
        with inductor_config.patch({"triton.cudagraph_min_partition_size": 10}):
            compiled, x = captured(lambda x: x * 2), npu(4, 4)
            for _ in range(3):
                check(compiled(x), x * 2)
        assert counts() == (0, 0, 0, 0)

    @needs_torch("2.12", "raises for graphs of cuda only")
    def test_an_error_where_nothing_is_captured(self):
        optimizer = torch.optim.AdamW([torch.nn.Parameter(npu(4))])
        optimizer.param_groups[0]["params"][0].grad = npu(4)
        step = captured(optimizer.step)
        with inductor_config.patch({"triton.cudagraph_or_error": True}), pytest.raises(RuntimeError, match="skipping"):
            step()

    @HAS_OVERRIDES
    @pytest.mark.parametrize("forward", [True, False])
    def test_functions_that_ask_for_graphs_or_for_none(self, forward, counts):
        """`torch._dynamo.override_cudagraphs`, against the mode."""

        @torch._dynamo.override_cudagraphs(fwd=forward, bwd=forward)
        def inner(x):
            return (x * x).sin()

        compiled = torch.compile(lambda x: inner(x) + 1, mode="default" if forward else "reduce-overhead")
        for seed in range(3):
            x = npu(4, 4, seed=seed, grad=True)
            result = compiled(x)
            result.sum().backward()
            check(result, (x * x).sin() + 1)
        assert (counts()[1] >= 2) is forward

    @HAS_OVERRIDES
    def test_a_block_without_graphs(self, counts):
        def function(x):
            y = x + 1
            torch._dynamo.graph_break()
            with torch._dynamo.override_cudagraphs(fwd=False, bwd=False):
                z = y * 2
                torch._dynamo.graph_break()
                w = z - 1
            torch._dynamo.graph_break()
            return w + 3

        compiled, x = captured(function), npu(4, 4)
        for _ in range(3):
            check(compiled(x), (x + 1) * 2 + 2)
        assert counts() == (2, 2, 4, 0)

    @pytest.mark.skipif(
        not hasattr(inductor_config, "force_disable_cudagraph_TESTING_ONLY"),
        reason="torch before 2.13 has no such switch",
    )
    def test_a_forward_pass_only(self):
        """The backward pass was compiled without graphs."""
        compiled = captured(cube)
        for seed in range(3):
            x = npu(19, 21, seed=seed, grad=True)  # sizes of no other test: the cache keeps what was compiled
            result = compiled(x)
            with inductor_config.patch(force_disable_cudagraph_TESTING_ONLY=True):
                result.backward(torch.ones_like(result))
            check(x.grad, 3 * x * x)
        assert [name.split()[0] for name in graph_captures()] == ["forward"]


class TestTraining:
    def test_a_backward_pass_that_never_comes(self):
        def function(x, y):
            first = cube(x)
            torch._dynamo.graph_break()
            return first, cube(y)

        compiled = captured(function)
        for seed in range(4):
            x, y = npu(20, 20, seed=seed, grad=True), npu(20, 20, seed=seed + 9, grad=True)
            first, second = compiled(x, y)
            first.sum().backward()
            check((first, second), function(x, y))
            check(x.grad, 3 * x * x)

    def test_a_backward_pass_after_calls_of_another_function(self):
        tanh, total = captured(lambda x, w: torch.tanh(x * w).sum()), captured(lambda y: y.sum())
        x, weight = npu(64, 64, grad=True), torch.nn.Parameter(npu(64, 64, seed=1))
        for turn in range(6):
            loss = tanh(x, weight)
            total(npu(8))
            if turn == 4:
                weight.data = weight.data.clone()  # the saved tensors are those of before
            (gradient,) = torch.autograd.grad(loss, x)
            check(gradient, torch.autograd.grad(torch.tanh(x * weight).sum(), x)[0])

    def test_a_new_step_before_the_backward_pass(self):
        """What the earlier step saved is gone, and says so; the new step's backward pass is right."""
        compiled, weight = captured(lambda x, w: torch.tanh(x @ w).sum()), torch.nn.Parameter(npu(8, 8))
        old_x, new_x = npu(8, 8, seed=2, grad=True), npu(8, 8, seed=3, grad=True)
        for x in (old_x, new_x) * 2:
            torch.autograd.grad(compiled(x, weight), x)
        old = compiled(old_x, weight)
        torch.compiler.cudagraph_mark_step_begin()
        new = compiled(new_x, weight)
        with pytest.raises(RuntimeError, match="overwritten by a later call"):
            torch.autograd.grad(old, old_x)
        (gradient,) = torch.autograd.grad(new, new_x)
        check(gradient, torch.autograd.grad(torch.tanh(new_x @ weight).sum(), new_x)[0])

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_gradients_accumulate_in_place_or_not(self, create_graph):
        compiled = captured(lambda x: x + 2)
        for seed in range(4):
            x, gradient = npu(5, 5, seed=seed, grad=True), torch.ones(5, 5, device="npu")
            y = compiled(x)
            y.backward(gradient, retain_graph=True)
            first, copy = x.grad, x.grad.clone()
            y.backward(gradient, create_graph=create_graph)
            check(first, copy if create_graph else copy * 2)
            check(x.grad, copy * 2)

    def test_a_gradient_that_is_kept_across_steps(self):
        """It is the graph's memory: the next step overwrites it, and adding to it raises."""
        weight, x = torch.nn.Parameter(npu(4)), npu(4, seed=1)
        compiled = captured(lambda x: (x * weight).sum())
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            weight.grad = None
            compiled(x).backward()
        torch.compiler.cudagraph_mark_step_begin()
        with pytest.raises(RuntimeError, match="overwritten by a later call"):
            compiled(x).backward()

    def test_sizes_forward_and_backward(self):
        def function(x):
            x = torch.cat([x, x])
            return torch.addmm(x, x, x).relu(), x.size(0)

        compiled = captured(function, dynamic=True)
        for rows in (2, 3, 2, 3, 2):
            x = npu(rows, rows * 2, seed=rows, grad=True)
            (result, size), (expected, _) = compiled(x), function(x)
            check(result, expected)
            assert size == rows * 2
            check(torch.autograd.grad(result.sum(), x), torch.autograd.grad(expected.sum(), x))

    def test_inference_that_forgot_no_grad(self, counts):
        """Graphs of backward passes that never run keep nothing: no more captures, no more memory."""
        first, second = captured(lambda x, w: torch.tanh(x @ w)), captured(lambda y, w: torch.tanh(y @ w).mean())
        one, other, x = (torch.nn.Parameter(npu(32, 32, seed=seed)) for seed in range(3))
        for turn in range(10):
            second(first(x, one), other)
            if turn == 4:
                gc.collect()
                before, captures = torch.npu.memory_allocated(), counts()[1]
        gc.collect()
        assert counts()[1] == captures and torch.npu.memory_allocated() <= before

    def test_a_backward_pass_that_is_compiled_itself(self):
        weight, x = torch.nn.Parameter(npu(10, 10)), npu(10, 10, seed=1)
        with torch._dynamo.config.patch(compiled_autograd=True):
            backward = captured(lambda loss: loss.backward())
            for _ in range(5):
                backward((x @ weight).sum())
                check(weight.grad, torch.autograd.grad((x @ weight).sum(), weight)[0])
                weight.grad = None

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
    def test_checkpoints_draw_again_what_they_drew(self, order):
        """The gradient of x * noise is the noise that the forward pass multiplied by."""

        def function(x):
            return checkpoint(lambda x: x * torch.rand_like(x), torch.sin(x), use_reentrant=True)

        compiled = captured(function)
        for _ in range(2):
            compiled(npu(4, 4, grad=True)).sum().backward()
        arguments = [npu(4, 4, seed=seed, grad=True) for seed in range(3)]
        results = [compiled(x) for x in arguments]
        assert not torch.equal((results[0] / torch.sin(arguments[0])), (results[1] / torch.sin(arguments[1])))
        for index in order:
            x, noise = arguments[index], (results[index] / torch.sin(arguments[index])).detach()
            results[index].sum().backward()
            torch.testing.assert_close(x.grad, noise * torch.cos(x), rtol=1e-4, atol=1e-5)

    def test_checkpoints_draw_what_eager_draws(self):
        def function(x, y):
            noisy = checkpoint(lambda x, y: torch.sigmoid(torch.rand_like(x) * y) * x, x.sin(), y, use_reentrant=True)
            return noisy.sin()

        found = []
        with inductor_config.patch(fallback_random=True):
            for run in (function, captured(function)):
                torch.npu.manual_seed(0)
                for seed in range(4):
                    x, y = npu(4, 4, seed=seed, grad=True), npu(4, 4, seed=seed + 7, grad=True)
                    result = run(x, y)
                    result.sum().backward()
                    found.append((result.detach().clone(), x.grad, y.grad))
        for eager, compiled in zip(found[:4], found[4:], strict=True):
            check(compiled, eager)


def test_the_statistics_name_both_passes():
    compiled = captured(cube)
    for seed in range(3):
        compiled(npu(4, seed=seed, grad=True)).sum().backward()
    assert sorted(name.split()[0] for name in graph_captures()) == ["backward", "forward"]

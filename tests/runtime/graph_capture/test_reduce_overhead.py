"""Captured compiled functions give what they give when launched kernel by kernel, whatever becomes of arguments and
results between the calls.
"""

from __future__ import annotations

import threading

import pytest
import torch

from inductor_npu import config
from inductor_npu.runtime.graph_capture.statistics import graph_captures


def captured(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)


def npu(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).npu()


def two_sums(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = (x * 2 + y).relu()
    return z.sum(0), z.sum(1)


def check(results, expected) -> None:
    torch.testing.assert_close(results, expected)


class TestCalls:
    def test_the_first_warms_up_the_second_captures_the_rest_replay(self, counts):
        compiled = captured(two_sums)
        for seed in range(5):
            x, y = npu(32, 48, seed=seed), npu(32, 48, seed=seed + 10)
            check(compiled(x, y), two_sums(x, y))
        assert counts() == (1, 1, 4, 0)

    @pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
    def test_modes(self, mode, counts):
        compiled = torch.compile(lambda x: (x @ x).softmax(1), mode=mode)
        x = npu(64, 64)
        for _ in range(3):
            check(compiled(x), (x @ x).softmax(1))
        assert counts() == (1, 1, 2, 0)

    def test_the_default_mode_captures_nothing(self, counts):
        compiled = torch.compile(two_sums)
        for _ in range(3):
            compiled(npu(8, 8), npu(8, 8))
        assert counts() == (0, 0, 0, 0)

    def test_random_numbers_differ_from_call_to_call_and_follow_the_seed(self):
        compiled = captured(lambda x: torch.nn.functional.dropout(x, 0.5))
        x = torch.ones(1000, device="npu")
        compiled(x), compiled(x)
        torch.npu.manual_seed(3)
        first, second = compiled(x).cpu(), compiled(x).cpu()
        torch.npu.manual_seed(3)
        assert not torch.equal(first, second)
        assert torch.equal(first, compiled(x).cpu()) and torch.equal(second, compiled(x).cpu())

    def test_in_inference_mode(self, counts):
        compiled = captured(two_sums)
        with torch.inference_mode():
            x, y = npu(8, 8), npu(8, 8)
            for _ in range(4):
                results = compiled(x, y)
                check(results, two_sums(x, y))
                assert all(result.is_inference() for result in results)
        assert counts() == (1, 1, 3, 0)

    def test_inside_a_capture_of_the_program(self, counts):
        compiled = captured(lambda x: (x + 1).relu())
        x = npu(100)
        for _ in range(3):
            compiled(x)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = compiled(x) * 2
        x.copy_(npu(100, seed=5))
        graph.replay()
        check(y, (x + 1).relu() * 2)
        assert counts()[3] == 1

    def test_two_threads(self, counts):
        compiled = captured(lambda x: x.exp().sum(0))
        x = npu(64, 64)
        for _ in range(3):
            check(compiled(x), x.exp().sum(0))
        results = []
        thread = threading.Thread(target=lambda: results.append(compiled(x)))
        thread.start()
        thread.join()
        check(results[0], x.exp().sum(0))
        (statistics,) = graph_captures().values()
        assert list(statistics.skipped) == ["another thread than the one that captured calls it"]


class TestResults:
    def test_results_that_are_kept_stay_valid(self, counts):
        compiled = captured(two_sums)
        kept = []
        for seed in range(6):
            x, y = npu(16, 16, seed=seed), npu(16, 16, seed=seed + 10)
            kept.append((compiled(x, y), two_sums(x, y)))
        for results, expected in kept:
            check(results, expected)
        assert counts()[1:3] == (1, 5)

    def test_views_of_results_stay_valid(self):
        compiled = captured(lambda x: x * 2)
        views = []
        for seed in range(4):
            x = npu(8, 8, seed=seed)
            views.append((compiled(x).t()[2:], (x * 2).t()[2:]))
        for view, expected in views:
            check(view, expected)

    def test_results_that_share_memory_share_it_again(self):
        def function(x):
            y = x + 1
            return y, y[2:], y.view(-1)

        compiled = captured(function)
        for _ in range(3):
            whole, part, flat = compiled(npu(4, 4))
        whole[3, 0] = 100
        assert part[1, 0].item() == 100 and flat[12].item() == 100

    def test_a_result_that_is_an_argument_is_that_argument(self):
        compiled = captured(lambda x, y: (x, y.t(), x + y))
        for seed in range(4):
            x, y = npu(4, 4, seed=seed), npu(4, 4, seed=seed + 5)
            same, turned, total = compiled(x, y)
            assert same.data_ptr() == x.data_ptr() and turned.data_ptr() == y.data_ptr()
            check(total, x + y)

    def test_a_new_step_invalidates_what_is_overwritten(self):
        compiled = captured(lambda x: x + 1)
        x = npu(100)
        for _ in range(3):
            compiled(x)
        torch.compiler.cudagraph_mark_step_begin()
        old = compiled(x)
        torch.compiler.cudagraph_mark_step_begin()
        compiled(x)
        with pytest.raises(RuntimeError, match="overwritten by a later call"):
            old.cpu()

    def test_functions_in_a_row(self, counts):
        first, second, third = captured(lambda x: (x @ x).relu()), captured(lambda x: x.softmax(1)), captured(two_sums)
        kept = []
        for seed in range(5):
            x = npu(32, 32, seed=seed)
            a = first(x)
            b = second(a)
            kept.append((third(a, b), two_sums((x @ x).relu(), (x @ x).relu().softmax(1))))
        for results, expected in kept:
            check(results, expected)
        assert counts() == (3, 3, 12, 0)

    def test_functions_in_changing_order(self):
        functions = [lambda x: (x + 1).exp(), lambda x: (x * 2).sum(0), lambda x: (x @ x).tanh()]
        compiled = [captured(function) for function in functions]
        kept = []
        generator = torch.Generator().manual_seed(0)
        for seed in range(30):
            index = int(torch.randint(3, (1,), generator=generator))
            x = npu(16, 16, seed=seed)
            kept.append((compiled[index](x), functions[index](x)))
            if len(kept) > 4:
                check(*kept.pop(int(torch.randint(4, (1,), generator=generator))))
        for results, expected in kept:
            check(results, expected)


class TestArguments:
    def test_what_stays_where_it_is_is_not_copied(self):
        """A function whose only argument stays reads it in place: new values need no copy."""
        compiled = captured(lambda x: x * 2)
        x = npu(1000)
        for _ in range(3):
            compiled(x)
        before = torch.npu.memory_allocated()
        x.copy_(npu(1000, seed=7))
        with torch.npu.stream(torch.npu.current_stream()):
            result = compiled(x)
        check(result, x * 2)
        assert torch.npu.memory_allocated() == before

    def test_one_that_moves_after_the_capture(self, counts):
        compiled = captured(lambda x, w: x @ w)
        x, w = npu(8, 8), npu(8, 8, seed=1)
        for _ in range(3):
            check(compiled(x, w), x @ w)
        for seed in range(3):
            moved = npu(8, 8, seed=seed)
            check(compiled(x, moved), x @ moved)
        assert counts() == (1, 2, 5, 0)

    def test_parameters_that_are_replaced(self):
        model = torch.nn.Linear(8, 8).npu()
        compiled = captured(model)
        x = npu(4, 8)
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
            model.weight.data = npu(8, 8, seed=3)
            for _ in range(3):
                check(compiled(x), model(x))

    def test_expanded_transposed_and_misaligned(self):
        compiled = captured(lambda x: x.exp() + 1)
        for make in (
            lambda seed: npu(8, 1, seed=seed).expand(8, 16),
            lambda seed: npu(16, 8, seed=seed).t(),
            lambda seed: npu(129, seed=seed)[1:].view(8, 16),
        ):
            for seed in range(4):
                x = make(seed)
                check(compiled(x), x.exp() + 1)

    def test_a_cpu_number(self):
        compiled = captured(lambda x, s: x * s)
        x = npu(16)
        for value in (1.5, 2.5, 3.5, 4.5):
            check(compiled(x, torch.tensor(value)), x * value)

    def test_an_argument_that_is_written(self):
        def step(cache, value, place):
            cache.index_copy_(0, place, value)
            return cache.sum(0)

        compiled = captured(step)
        cache, expected = torch.zeros(8, 4, device="npu"), torch.zeros(8, 4, device="npu")
        for place in range(6):
            value, at = npu(1, 4, seed=place), torch.tensor([place], device="npu")
            check(compiled(cache, value, at), step(expected, value, at))
            check(cache, expected)

    def test_written_arguments_that_move(self):
        def step(x, y):
            x.add_(y)
            return x * 2

        compiled = captured(step)
        for seed in range(5):
            x, y = npu(16, seed=seed), npu(16, seed=seed + 9)
            expected = x.clone()
            check(compiled(x, y), step(expected, y))
            check(x, expected)

    def test_empty_arguments(self):
        compiled = captured(lambda x, y: (x.sum(), y + 1))
        for seed in range(3):
            y = npu(4, seed=seed)
            total, more = compiled(torch.empty(0, device="npu"), y)
            assert total.item() == 0
            check(more, y + 1)


class TestSizes:
    def test_each_size_is_captured_once(self, counts):
        compiled = captured(two_sums, dynamic=True)
        for _ in range(3):
            for rows in (4, 7, 16):
                x, y = npu(rows, 8, seed=rows), npu(rows, 8)
                check(compiled(x, y), two_sums(x, y))
        assert counts() == (3, 3, 6, 0)

    def test_no_more_sizes_than_the_limit(self, counts):
        compiled = captured(two_sums, dynamic=True)
        with config.patch(capture_sizes=2):
            for _ in range(3):
                for rows in (4, 7, 16):
                    x, y = npu(rows, 8, seed=rows), npu(rows, 8)
                    check(compiled(x, y), two_sums(x, y))
        assert counts() == (2, 2, 4, 3)
        (statistics,) = graph_captures().values()
        assert list(statistics.skipped) == ["more than 2 combinations of sizes (config.capture_sizes)"]


class TestParts:
    def test_what_cannot_be_captured_runs_between_two_parts(self, counts):
        def function(x, y):
            z = (x * 2 + y).relu()
            on_cpu = z.cpu() + 1
            return (on_cpu.npu() @ y).sum(0)

        compiled = captured(function)
        for seed in range(4):
            x, y = npu(16, 16, seed=seed), npu(16, 16, seed=seed + 5)
            check(compiled(x, y), function(x, y))
        assert counts() == (2, 2, 6, 0)

    def test_sizes_that_depend_on_values(self):
        def function(x):
            return (x[x > 0] * 2).sum() + x.exp().sum()

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compiled = captured(function)
            for seed in range(4):
                x = npu(64, seed=seed)
                check(compiled(x), function(x))

    def test_an_operator_without_shapes_is_left_out_with_its_reason(self):
        with torch.library._scoped_library("graph_capture_test", "FRAGMENT") as library:
            library.define("double(Tensor x) -> Tensor")
            for key in ("CPU", "CUDA"):  # whose memory the device has
                library.impl("double", lambda x: x * 2, key)
            torch.library.register_fake("graph_capture_test::double", torch.empty_like, lib=library)
            compiled = captured(lambda x: torch.ops.graph_capture_test.double(x + 1) + 1)
            for seed in range(3):
                x = npu(16, seed=seed)
                check(compiled(x), (x + 1) * 2 + 1)


@pytest.mark.slow
def test_memory_goes_with_the_function():
    torch.npu.synchronize()
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    compiled = captured(lambda x: (x.exp() + 1).log().sum(0))
    x = npu(1024, 1024)
    for _ in range(3):
        compiled(x)
    del compiled, x
    torch._dynamo.reset()
    import gc

    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= before

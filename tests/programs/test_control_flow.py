"""Branches and loops that the data decides, as operators of one graph: cond, while_loop, scan and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_rows

from tests.compile.helpers import assert_equal, check, code_of, counted, kernel_count, to_npu
from tests.torch_features import before_torch, needs_torch


def _branch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    def above(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ w, -1) * 2

    def below(x: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu() - 1

    return torch.cond(x.sum() > 0, above, below, (x + 1,)) + 1


@pytest.mark.slow
def test_gradients_go_through_the_branch_that_was_taken() -> None:
    compiled = torch.compile(_branch, fullgraph=True)
    for sign in (1, -1):
        x = (torch.rand(3, 5) * sign).requires_grad_()
        check(_branch, x, torch.randn(5, 4, requires_grad=True), compiled=compiled, backward=True)


@pytest.mark.slow
def test_a_branch_on_data_is_one_graph_for_all_sizes() -> None:
    compiled, counter = counted(_branch, fullgraph=True, dynamic=True)
    for rows, sign in ((3, 1), (8, -1), (20, 1)):
        check(_branch, torch.rand(rows, 5) * sign, torch.randn(5, 4), compiled=compiled)
    assert counter.frame_count == 1


def test_a_branch_on_a_size_and_on_a_number() -> None:
    def fn(x: torch.Tensor, limit: int) -> torch.Tensor:
        return torch.cond(x.shape[0] > limit, lambda x: x.cos(), lambda x: x.sin(), (x,))

    compiled = torch.compile(fn, fullgraph=True, dynamic=True)
    for rows in (3, 9):
        check(fn, torch.randn(rows, 2), 5, compiled=compiled)


def test_branches_inside_of_branches_with_several_results() -> None:
    def fn(x: torch.Tensor, flag: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def inner(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cond(x[0] > 0, lambda x: (x * 2, x.sum()), lambda x: (x * 3, x.amax()), (x,))

        return torch.cond(flag, inner, lambda x: (x - 1, x.mean()), (x.exp() - 1,))

    compiled = torch.compile(fn, fullgraph=True)
    for first in (1.0, -1.0):
        for flag in (True, False):
            check(fn, torch.full((6,), first), torch.tensor(flag), compiled=compiled)


def test_a_loop_until_the_data_says_stop() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def goes_on(step: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return (x.norm() > 1) & (step < 50)

        def halved(step: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return step + 1, (x / 2).cos() * x * 0.3

        return while_loop(goes_on, halved, (torch.zeros((), dtype=torch.int64, device=x.device), x))

    compiled, counter = counted(fn, fullgraph=True)
    for scale in (100.0, 3.0, 0.0):
        check(fn, torch.randn(8, 3) * scale, compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_a_loop_with_weights_from_outside_and_dynamic_shapes() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        def goes_on(step: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return step < steps

        def layer(step: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return step + 1, torch.tanh(x @ w) + x.mean(0)

        return while_loop(goes_on, layer, (torch.zeros_like(steps), x))[1] * 2

    compiled, counter = counted(fn, fullgraph=True, dynamic=True)
    for rows, steps in ((3, 4), (7, 0), (12, 1)):
        check(fn, torch.randn(rows, 6), torch.randn(6, 6) / 3, torch.tensor(steps), compiled=compiled)
    assert counter.frame_count == 1


def _recurrent(x: torch.Tensor, w: torch.Tensor, initial: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    # Without the clone Inductor says, on the CPU too, that the gradient's outputs might be aliases.
    def cell(state: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = torch.tanh(state @ w + step)
        return new.clone(), new * 2

    return scan(cell, initial, x, dim=0)


# Inductor counts the steps of a scan and of a map in a tensor of the CPU and compiles C++ code for that, on any device.
@pytest.mark.slow
def test_gradients_of_a_scan_which_is_a_recurrent_network() -> None:
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((5, 2, 4), (4, 4), (2, 4))]
    check(_recurrent, *inputs, backward=True)


@pytest.mark.slow
def test_a_scan_from_the_end_along_another_axis() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(total: torch.Tensor, column: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return total * 0.5 + column, total + column

        return scan(step, torch.zeros_like(x[:, 0]), x, dim=1, reverse=True)

    check(fn, torch.randn(4, 7))


@pytest.mark.slow
def test_a_scan_with_dynamic_shapes() -> None:
    compiled, counter = counted(_recurrent, fullgraph=True, dynamic=True)
    for steps in (3, 6, 11):
        check(_recurrent, torch.randn(steps, 2, 4), torch.randn(4, 4), torch.randn(2, 4), compiled=compiled)
    assert counter.frame_count == 1


@needs_torch("2.14", "scans in one kernel only for the devices of a table")
@pytest.mark.parametrize("shape", [(9,), (5, 40), (3, 1000)], ids=str)
def test_an_associative_scan_is_one_kernel(shape: tuple[int, ...]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a * b, x, dim=-1) + 1

    x = 1 + torch.randn(shape) * 0.01  # close to 1, so that a product of a thousand is a number
    assert_equal(torch.compile(fn, fullgraph=True)(to_npu(x)), x.cumprod(-1) + 1)
    assert kernel_count(code_of(fn, to_npu(x))) == 1


def _composed(pair: Any, other: Any) -> Any:
    """Composition of x -> a x + b: the recurrence of state space models."""
    (a, b), (c, d) = pair, other
    return a * c, b * c + d


def _recurrence(a: torch.Tensor, b: torch.Tensor, steps: Iterable[int]) -> torch.Tensor:
    """state = sigmoid(a) state + b along the columns of `a` and `b`, shape (rows, columns), in the order `steps`."""
    states, state = {}, torch.zeros(len(a))
    for step in steps:
        states[step] = state = a.sigmoid()[:, step] * state + b[:, step]
    return torch.stack([states[step] for step in range(a.shape[1])], 1)


@needs_torch("2.14", "scans in one kernel only for the devices of a table")
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_over_pairs(reverse: bool) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return associative_scan(_composed, (a.sigmoid(), b), dim=1, reverse=reverse)[1]

    a, b = torch.randn(4, 60), torch.randn(4, 60)
    expected = _recurrence(a, b, range(59, -1, -1) if reverse else range(60))
    assert_equal(torch.compile(fn, fullgraph=True)(to_npu(a), to_npu(b)), expected)


@needs_torch("2.14", "scans in one kernel only for the devices of a table")
def test_an_associative_scan_outside_of_compiled_code() -> None:
    a, b = torch.randn(4, 12), torch.randn(4, 12)
    actual = associative_scan(_composed, (to_npu(a).sigmoid(), to_npu(b)), dim=1)[1]
    assert_equal(actual, _recurrence(a, b, range(12)))


@before_torch("2.14", "asks the backend")
def test_an_associative_scan_in_one_kernel_is_refused() -> None:
    with pytest.raises(Exception, match="combine_mode='pointwise', all input tensors need to be on CUDA or XPU"):
        torch.compile(associative_scan)(torch.maximum, torch.ones(4, device="npu"), 0)


@pytest.mark.slow
def test_an_associative_scan_in_generic_mode() -> None:
    """Rows are combined pair by pair, which is many kernels, for functions that are more than elementwise."""

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return associative_scan(_composed, (a.sigmoid(), b), dim=1, combine_mode="generic")[1]

    a, b = torch.randn(4, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True)
    moved = to_npu(a), to_npu(b)
    expected, actual = _recurrence(a, b, range(6)), torch.compile(fn, fullgraph=True)(*moved)
    assert_equal(actual, expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_equal([tensor.grad for tensor in moved], [a.grad, b.grad])


@needs_torch("2.14", "scans in one kernel only for the devices of a table")
def test_an_associative_scan_along_the_first_axis() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return associative_scan(_composed, (a.sigmoid(), b), dim=0)[1]

    a, b = torch.randn(20, 33), torch.randn(20, 33)
    expected = _recurrence(a.t(), b.t(), range(20)).t()
    assert_equal(torch.compile(fn, fullgraph=True)(to_npu(a), to_npu(b)), expected)


@needs_torch("2.14", "scans in one kernel only for the devices of a table")
def test_an_associative_scan_of_a_number_of_steps_that_changes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(torch.maximum, x, dim=1) * 2

    compiled, counter = counted(fn, fullgraph=True, dynamic=True)
    for steps in (5, 130, 3000):
        x = torch.randn(3, steps)
        assert_equal(compiled(to_npu(x)), x.cummax(1).values * 2)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_a_function_mapped_over_rows() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row, w: torch.softmax(row @ w, -1), x * 2, w)

    check(fn, torch.randn(2, 3, 5, requires_grad=True), torch.randn(5, 6, requires_grad=True), backward=True)

"""Sizes that only the data tells: of nonzero, of masks, of numbers read from tensors. One graph, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.compile.helpers import check, counted, to_npu


@pytest.fixture(autouse=True)
def _sizes_are_captured() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def _holds_for(fn: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> None:
    """One graph of `fn` is right for the arguments of every call, whatever sizes they lead to."""
    compiled, counter = counted(fn, fullgraph=True)
    for inputs in calls:
        check(fn, *inputs, compiled=compiled, **options)
    assert counter.frame_count == 1


def _masks(length: int) -> list[torch.Tensor]:
    """Masks of `length` elements with none, one, some and all of them set."""
    one = torch.zeros(length, dtype=torch.bool)
    one[length // 2] = True
    return [torch.rand(length) > 0.4, torch.zeros(length, dtype=torch.bool), one, torch.ones(length, dtype=torch.bool)]


def test_nonzero_of_any_number_of_elements() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.nonzero(as_tuple=True)
        return rows * 7 + columns, x.nonzero().sum(0), columns.float().cos()

    _holds_for(fn, *[(mask.view(5, 8).float(),) for mask in _masks(40)])


def test_reductions_of_selected_elements() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        selected = torch.masked_select(x, mask)
        return selected.sum(), selected.mean(), (selected * 2).exp(), selected.square().sum().sqrt()

    x = torch.randn(50)
    _holds_for(fn, *[(x, mask) for mask in _masks(50)])


def test_selected_rows_are_normalised_and_multiplied() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        rows = x[mask]
        return torch.softmax(torch.nn.functional.layer_norm(rows, (16,)) @ w, -1)

    x, w = torch.randn(30, 16), torch.randn(16, 9)
    _holds_for(fn, *[(x, mask, w) for mask in _masks(30)])


@pytest.mark.slow
def test_selected_elements_are_sorted() -> None:
    """In kernels: the number of selected elements is unknown, but it has a limit."""

    def fn(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = x[mask]
        values, order = rows.sort(0, descending=True)
        return values, order, rows[:, 0].sort().values * 2, rows.argsort(1)

    x = torch.randn(30, 5)
    x[3, 1] = float("nan")
    _holds_for(fn, *[(x, mask) for mask in _masks(30)])


def test_gradient_of_selected_elements() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (x[mask] * 3).sin().sum()

    _holds_for(fn, *[(torch.randn(20, requires_grad=True), mask) for mask in _masks(20)], backward=True)


def test_a_long_selection_is_split_over_programs() -> None:
    x = torch.randn(200_000)
    check(lambda x: (x[x > 0].sum(), x[x > 3.2] + 1), x)


def test_assignment_through_a_mask() -> None:
    def fn(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        x[x < 0] = 0.5
        x[values.nonzero().squeeze(1)] += 1
        return x * 2

    _holds_for(fn, *[(torch.randn(25), mask.float()) for mask in _masks(25)])


def test_a_number_read_from_a_tensor_is_computed_with() -> None:
    def fn(x: torch.Tensor, scale: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * scale.item() + count.item(), x + scale.max().item() ** 2

    _holds_for(fn, *[(torch.randn(9), torch.tensor(s), torch.tensor(n)) for s, n in ((0.5, 3), (-2.0, 0), (1e9, 1))])


def test_a_number_read_from_a_tensor_is_a_size() -> None:
    def fn(length: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = length.item()
        torch._check(n <= x.shape[0])
        return torch.arange(n, device=x.device) * 2, torch.ones(n, 3, device=x.device).sum(0) + 1

    _holds_for(fn, *[(torch.tensor(n), torch.randn(10)) for n in (4, 0, 1, 10)])


def test_a_slice_that_ends_where_a_tensor_says() -> None:
    def fn(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        n = length.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return x.narrow(0, 0, n).cos().sum(0) + x[:n].sum(0)

    x = torch.randn(12, 5)
    _holds_for(fn, *[(x, torch.tensor(n)) for n in (7, 0, 1, 12)])


def test_lengths_of_a_ragged_batch() -> None:
    def fn(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = x.split(lengths.tolist())
        return tuple(part.sum(0) for part in parts)

    x = torch.randn(10, 6)
    _holds_for(fn, *[(x, torch.tensor(lengths)) for lengths in ([2, 3, 5], [4, 4, 2], [8, 0, 2], [1, 1, 8])])


def test_repeats_that_a_tensor_says() -> None:
    def fn(x: torch.Tensor, repeats: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.repeat_interleave(repeats, 0) * 2, torch.repeat_interleave(repeats)

    x = torch.randn(4, 3)
    _holds_for(
        fn, *[(x, torch.tensor(repeats)) for repeats in ([2, 1, 3, 1], [0, 0, 0, 0], [0, 0, 1, 0], [9, 1, 1, 1])]
    )


def test_unique_elements() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values * 2, inverse + 1, counts.cumsum(0)

    _holds_for(fn, *[(torch.tensor(values),) for values in ([3, 1, 3, 2], [5, 5, 5, 5], [1, 2, 3, 4])])


def test_counts_in_bins_whose_number_the_data_decides() -> None:
    _holds_for(
        lambda x: torch.bincount(x) * 2, *[(torch.tensor(x),) for x in ([1, 0, 4, 1], [9, 9, 9, 9], [0, 0, 0, 0])]
    )


def test_selections_joined_and_reshaped() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = x[mask].view(-1, 2)
        joined = torch.cat([pairs, pairs.flip(1), x[:1]])
        return joined * 2, pairs.t().contiguous().sum(1)

    x = torch.randn(20, 2)
    _holds_for(fn, *[(x, mask) for mask in _masks(20)])


def test_two_selections_of_equal_size() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        positive, other = x[x > 0], y[y > 0]
        torch._check(positive.shape[0] == other.shape[0])
        return positive * other + 1

    x = torch.randn(40)
    _holds_for(fn, (x, x * 2), (x.abs(), x.abs() + 1), (-x.abs(), -x.abs()))


def test_an_unbacked_input_is_empty_one_or_many() -> None:
    """`mark_unbacked`: even sizes 0 and 1 share the graph, which no guard keeps them from."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2 + 1, x.sum(0), x.sum(1), torch.relu(x).t().contiguous()

    compiled, counter = counted(fn, fullgraph=True)
    for rows in (5, 0, 1, 300):
        x = torch.randn(rows, 6)
        moved = to_npu(x)
        torch._dynamo.decorators.mark_unbacked(moved, 0)
        torch.testing.assert_close([y.cpu() for y in compiled(moved)], list(fn(x)))
    assert counter.frame_count == 1


def test_a_promise_about_a_size_that_is_broken_is_an_error() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        rows = x.nonzero()
        torch._check(rows.shape[0] >= 2)
        return rows + 1

    compiled = torch.compile(fn, fullgraph=True)
    assert compiled(torch.ones(3).to("npu")).shape == (3, 1)
    with pytest.raises(RuntimeError, match=r"u0 >= 2|Runtime assertion|Expected cond"):
        compiled(torch.tensor([0.0, 1.0, 0.0]).to("npu"))


def test_without_capture_a_size_from_data_breaks_the_graph() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x + 1)[x > 0] * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=False):
        compiled, counter = counted(fn)
        for length in (10, 11):
            check(fn, torch.randn(length), compiled=compiled)
    assert counter.frame_count >= 2

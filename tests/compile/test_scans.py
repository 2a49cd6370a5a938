"""Scans, sorts and searches: along any axis, over rows in one tile and rows read in a loop, of every type."""

from __future__ import annotations

import pytest
import torch

from tests.compile.helpers import check

INTEGERS = [torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def whole_numbers(*shape: int) -> torch.Tensor:
    """float32 numbers whose sums are exact in whatever order they are added."""
    return torch.randint(-3, 4, shape).float()


def with_nan(*shape: int) -> torch.Tensor:
    x = torch.randn(*shape)
    x.view(-1)[3::17] = float("nan")
    return x


@pytest.mark.parametrize("shape", [(64, 500), (3, 37), (2, 9001), (200, 100), (1, 1000), (9, 2)], ids=str)
def test_cumulative_sum_of_any_shape(shape: tuple[int, int]) -> None:
    check(lambda x: (x.cumsum(0), x.cumsum(1), x.flatten().cumsum(0)), whole_numbers(*shape))


@pytest.mark.parametrize("shape", [(9, 130), (3, 9001), (200, 33)], ids=str)
def test_cumulative_extremes_keep_nan_and_its_position(shape: tuple[int, int]) -> None:
    check(lambda x: (*x.cummax(0), *x.cummin(0), *x.cummax(1), *x.cummin(1)), with_nan(*shape))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_cumulative_of_integers(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 9, (7, 99)).to(dtype)
    check(lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(0)), x)
    if dtype != torch.bool:
        check(lambda x: (*x.cummax(1), *x.cummin(0)), x)


def test_sums_beyond_32_bits() -> None:
    check(lambda x: x.cumsum(1), torch.full((3, 50), 2**30))


def test_scan_of_a_permuted_view() -> None:
    """The scan's axis is two axes in memory."""
    x = whole_numbers(4, 20, 30)
    check(lambda x: (x.permute(0, 2, 1).reshape(4, 600).cumsum(1), *x.permute(0, 2, 1).reshape(4, 600).cummax(1)), x)


def test_scan_between_reductions_of_the_same_row() -> None:
    x = whole_numbers(2, 30000)
    check(lambda x: (x - x.amax(1, keepdim=True)).cummax(1).values + x.amin(1, keepdim=True), x)


@pytest.mark.slow
def test_one_kernel_for_rows_of_any_length() -> None:
    def scans(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(1), x.cummax(1).indices, x.cumsum(0)

    compiled = torch.compile(scans, dynamic=True)
    for shape in ((3, 5), (4, 700), (2, 9000), (7, 1)):
        check(scans, whole_numbers(*shape), compiled=compiled)


def test_scan_of_nothing() -> None:
    check(lambda x: (x.cumsum(1), x.cumsum(0)), torch.randn(0, 5))
    check(lambda x: (x.cumsum(1), x.cumsum(0)), torch.randn(5, 0))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_sort_is_stable(dtype: torch.dtype, dim: int) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 9, (40, 99)).to(dtype)
    check(lambda x: (*x.sort(dim=dim, stable=True), *x.sort(dim=dim, descending=True, stable=True)), x)


def test_sort_puts_nan_beyond_infinity() -> None:
    x = with_nan(6, 100)
    x[0, :20], x[1, 3:50], x[1, 3:50:2], x[2] = float("inf"), 0.0, -0.0, float("-inf")
    check(lambda x: (*x.sort(dim=1, stable=True), *x.sort(dim=1, descending=True, stable=True)), x)


def test_longest_row_that_is_sorted_in_a_kernel() -> None:
    check(lambda x: x.sort(dim=1, stable=True), torch.randn(3, 512))


def test_sort_of_a_permuted_view() -> None:
    check(lambda x: x.permute(0, 2, 1).reshape(4, 60).sort(dim=1, stable=True), torch.randn(4, 6, 10))


@pytest.mark.parametrize("count", [9, 1000, 5000])
def test_search_among_boundaries(count: int) -> None:
    edges = torch.linspace(-2, 2, count)
    check(lambda x, e: (torch.bucketize(x, e), torch.searchsorted(e, x, right=True)), with_nan(5, 70), edges)


def test_search_among_boundaries_of_each_row() -> None:
    edges = torch.randn(5, 33).sort(1).values
    check(lambda x, e: (torch.searchsorted(e, x), torch.searchsorted(e, x, right=True)), torch.randn(5, 70), edges)


def test_search_among_unsorted_boundaries() -> None:
    edges = torch.randn(33)
    check(lambda x, e, order: torch.searchsorted(e, x, sorter=order), with_nan(5, 70), edges, edges.argsort())


@pytest.mark.parametrize("count", [33, 3000])
def test_search_among_a_part_of_boundaries(count: int) -> None:
    def search(x: torch.Tensor, e: torch.Tensor) -> tuple[torch.Tensor, ...]:
        computed = e.exp().cumsum(0) - 2
        return (
            torch.bucketize(x, e[3:]),
            torch.bucketize(x, e[1::2], right=True),
            torch.searchsorted(e[:-1:2], x),
            torch.bucketize(x, (e * 2)[4:]),
            torch.searchsorted(computed[5:], x, right=True),
        )

    check(search, with_nan(5, 70), torch.linspace(-2, 2, count))


def test_search_among_a_part_of_the_boundaries_of_each_row() -> None:
    edges = torch.randn(2, 6, 40).sort(2).values
    check(
        lambda x, e: (torch.searchsorted(e[1, 1:], x), torch.searchsorted((e + 1)[0, 1:, 7:], x)),
        torch.randn(5, 70),
        edges,
    )


def test_search_among_a_part_of_unsorted_boundaries() -> None:
    edges = torch.randn(2, 33)
    check(lambda x, e, o: torch.searchsorted(e[1], x, sorter=o[1]), with_nan(70), edges, edges.argsort(1))


@pytest.mark.parametrize("count", [9, 5000])
def test_searches_in_one_kernel_on_request(count: int) -> None:
    edges = torch.linspace(-2, 2, count)
    with torch._inductor.config.patch(combo_kernels=True):
        check(lambda x, y, e: (torch.bucketize(x, e), torch.bucketize(y, e)), with_nan(5, 70), with_nan(99), edges)

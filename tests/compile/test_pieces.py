"""Values of kernels that are cut into pieces where conditions on indices change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape) * 4).abs().to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_concatenation(dtype: torch.dtype) -> None:
    first, second, third = (values(30, length, dtype=dtype) for length in (64, 100, 33))
    check(lambda *parts: torch.cat(parts, -1).clone() == parts[0][:, :1], first, second, third)
    check(lambda *parts: torch.cat([part.t() for part in parts], 0) + 1, first, second, third)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_concatenation_of_computed_values(dim: int) -> None:
    shapes = [[8, 12, 40] for _ in range(3)]
    for count, shape in enumerate(shapes, 1):
        shape[dim] = 16 * count
    parts = [torch.randn(shape, requires_grad=True) for shape in shapes]
    check(lambda a, b, c: torch.cat((a.relu(), b.sigmoid(), c), dim) * 2, *parts, backward=True)


@pytest.mark.parametrize(
    "padding", [(8, 9), (20, 0), (0, 20), (1, 1), (0, 0, 2, 3), (16, 16, 1, 2), (2, 3, 1, 1), (-8, 16)]
)
def test_padding(padding: tuple[int, ...]) -> None:
    check(lambda x: F.pad(x, padding, value=1.5) * 2, torch.randn(6, 20, 40, requires_grad=True), backward=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_padding_has_the_type_of_the_values(dtype: torch.dtype) -> None:
    check(lambda x: (F.pad(x, (33, 64), value=True), F.pad(x * x, (33, 64))), values(30, 40, dtype=dtype))


def test_padding_of_what_is_known_by_its_index() -> None:
    check(lambda x: F.pad(torch.arange(40, device=x.device) * 2, (16, 16), value=3) + x, torch.randn(72))


@pytest.mark.parametrize("limited", [lambda x: x.clamp(max=0), lambda x: -x.clamp(-2, 3), torch.abs, lambda x: x // 3])
def test_concatenation_of_what_is_known_by_its_index(limited: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def joined(x: torch.Tensor) -> torch.Tensor:
        numbers = torch.arange(4, device=x.device)
        differences = limited(numbers - numbers[:, None])
        return torch.cat([x, differences.reshape(-1) // 3, differences.reshape(-1) % 5])

    check(joined, torch.arange(8))


@pytest.mark.parametrize("span", [(10, 74), (0, 36), (64, 100), (0, 100)])
def test_write_to_a_slice(span: tuple[int, int]) -> None:
    source = torch.randn(64, span[1] - span[0])
    check(lambda x, y: torch.slice_scatter(x, y, 1, *span) * 2, torch.randn(64, 100), source)
    check(lambda x, y: torch.slice_scatter(x.t(), y.t(), 0, *span) * 2, torch.randn(64, 100), source)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_edges_of_rows(dtype: torch.dtype) -> None:
    check(lambda x: F.pad(x, (1, 2), value=True), values(50, 60, dtype=dtype))
    check(
        lambda x, y: torch.cat((x, y, x[:, :3]), 1) == x[:, :1], values(50, 60, dtype=dtype), values(50, 2, dtype=dtype)
    )


@pytest.mark.slow
def test_edges_of_differences() -> None:
    check(lambda x: x[:, 1:] - x[:, :-1], torch.randn(64, 301, requires_grad=True), backward=True)
    check(lambda x: F.pad(x, (1, 0)) - F.pad(x, (0, 1)), torch.randn(64, 300))
    check(lambda x: (F.pad(x, (1, 1)) * 2, F.pad(x, (2, 0)) + 1), torch.randn(300, 9))


def test_edges_of_rows_whose_number_is_dynamic() -> None:
    function = lambda x: F.pad(x, (1, 2)) * 2  # noqa: E731
    compiled = torch.compile(function, fullgraph=True)
    for rows in (20, 333, 9):
        check(function, torch.randn(rows, 60), compiled=compiled)


@pytest.mark.parametrize("width", [1, 3, 7, 8])
def test_edges_of_rows_that_are_themselves_short(width: int) -> None:
    check(lambda x: (F.pad(x, (1, 1)) * 2, F.pad(x, (0, 5)) + 1), torch.randn(300, width))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 2, 3), (5, 5, 5), (2, 6, 40)])
def test_pieces_that_are_one_tile_as_a_whole(shape: tuple[int, ...]) -> None:
    check(lambda x: F.local_response_norm(x, 3), torch.randn(shape, requires_grad=True), backward=True)


def test_edges_in_place() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[:, 1:65] = y.relu()
        x[:, 3:5].mul_(2)
        return x + 1

    check(write, torch.randn(64, 66), torch.randn(64, 64))


@pytest.mark.slow
def test_write_to_a_slice_in_place() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[:, 16:48] = y.relu()
        x[8:24].mul_(2)
        return x + 1

    check(write, torch.randn(64, 100), torch.randn(64, 32))


@pytest.mark.parametrize("index", [0, 5, 63])
def test_write_to_an_index(index: int) -> None:
    check(lambda x, y: torch.select_scatter(x, y, 0, index) * 2, torch.randn(64, 100), torch.randn(100))
    check(lambda x, y: torch.select_scatter(x, y, 1, index) * 2, torch.randn(30, 64), torch.randn(30))


def test_comparisons_of_an_index_with_numbers() -> None:
    def compared(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        index = torch.arange(100, device=x.device)
        outside = (index < 16) | ~(index <= 63)
        return torch.where(outside, x, -x), outside.float() + x, torch.where((index == 50) | (index != 50), x, 0.0)

    check(compared, torch.randn(20, 100))


def test_every_second_of_three_times_an_index() -> None:
    check(lambda x: torch.where(torch.arange(0, 300, 3, device=x.device) >= 100, x, -x) * 2, torch.randn(20, 100))


@pytest.mark.slow
def test_gradients_of_parts() -> None:
    def parts(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.split((64, 32, 96), -1)
        return (q.sum(-1) * k.exp().sum(-1))[:, None] * v.sigmoid()

    check(parts, torch.randn(40, 192, requires_grad=True), backward=True)


def test_rows_by_index_beside_each_other() -> None:
    def rows(table: torch.Tensor, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((F.embedding(index, table), x), -1) * 2

    check(rows, torch.randn(50, 32), torch.randint(0, 50, (40,)), torch.randn(40, 64))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.cat((x, y), 0) * 2,
        lambda x, y: torch.cat((x.relu(), x.sigmoid()), -1) + 1,
        lambda x, y: F.pad(x, (16, 16)) * 2,
        lambda x, y: F.pad(x, (0, 0, 3, 4)) * 2,
        lambda x, y: torch.slice_scatter(x, y[: x.shape[0] - 8], 0, 8) * 2,
    ],
    ids=["concatenation", "halves", "columns", "rows", "slice"],
)
def test_dynamic_sizes(function: Callable[..., torch.Tensor]) -> None:
    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for rows, columns in ((20, 40), (33, 70), (9, 128)):
        check(function, torch.randn(rows, columns), torch.randn(rows + 2, columns), compiled=compiled)


@pytest.mark.slow
def test_an_empty_part() -> None:
    function = lambda x, y: torch.cat((x * 2, y.relu()), 0) + 1  # noqa: E731
    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for rows in (5, 0, 1):
        check(function, torch.randn(20, 40), torch.randn(rows, 40), compiled=compiled)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32], ids=str)
def test_blocks_of_a_diagonal(dtype: torch.dtype) -> None:
    """Constants inside of constants: rows of zeros, in pieces, beside and between the blocks."""
    x, y, z = (torch.randint(0, 9, shape).to(dtype) for shape in ((1,), (2,), (3,)))
    check(lambda x, y, z: torch.block_diag(x, y, z), x, y, z)
    check(lambda x, y: torch.block_diag(x, y), x.expand(3, 4).clone(), y[:, None])

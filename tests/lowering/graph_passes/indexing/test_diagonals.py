"""Diagonals that are replaced: one kernel with what is around them, and in place where only they have to be written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls

SQUARE = torch.randn(37, 37)

# Shape, and the diagonal's offset and axes.
DIAGONALS = [
    ((10, 10), (0, 0, 1)),
    ((10, 10), (3, 0, 1)),
    ((10, 10), (-4, 0, 1)),
    ((7, 19), (0, 0, 1)),
    ((7, 19), (5, 0, 1)),
    ((7, 19), (14, 0, 1)),
    ((19, 7), (0, 0, 1)),
    ((19, 7), (-12, 0, 1)),
    ((10, 10), (2, 1, 0)),
    ((3, 9, 11), (0, 1, 2)),
    ((3, 9, 11), (1, -1, -2)),
    ((9, 3, 9), (0, 0, 2)),
    ((9, 3, 12), (-2, 2, 0)),
    ((2, 5, 3, 5), (-1, 1, 3)),
    ((1, 1), (0, 0, 1)),
    ((4, 4), (4, 0, 1)),
]


@pytest.mark.parametrize(("shape", "which"), DIAGONALS, ids=str)
def test_any_diagonal_of_any_axes(shape: tuple[int, ...], which: tuple[int, int, int]) -> None:
    tensor = torch.randn(shape)
    values = torch.randn(tensor.diagonal(*which).shape)
    assert calls(lambda a, b: a.diagonal_scatter(b, *which) * 2, tensor, values) == {KERNEL: 1}


@pytest.mark.parametrize(("shape", "offset"), [((4, 4), 5), ((4, 4), -7), ((1, 1), 3), ((2, 9), -3)], ids=str)
def test_a_diagonal_beyond_the_matrix_replaces_nothing(shape: tuple[int, int], offset: int) -> None:
    tensor = torch.randn(shape)
    values = torch.randn(tensor.diagonal(offset).shape)
    assert calls(lambda a, b: a.diagonal_scatter(b, offset) * 2, tensor, values) == {KERNEL: 1}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.bool])
def test_any_type_up_to_32_bits(dtype: torch.dtype) -> None:
    tensor, values = (torch.randint(0, 2, size).to(dtype) for size in ((13, 13), (12,)))
    assert calls(lambda a, b: a.diagonal_scatter(b, 1), tensor, values) == {KERNEL: 1}


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.complex64])
def test_longer_types_are_written_element_by_element(dtype: torch.dtype) -> None:
    tensor, values = (torch.randn(size).to(dtype) for size in ((13, 13), (12,)))
    check(lambda a, b: a.diagonal_scatter(b, 1), tensor, values)


def test_values_are_cast_to_the_tensors_type() -> None:
    def halved(a: torch.Tensor) -> torch.Tensor:
        b = a + 1
        b.diagonal().copy_(torch.arange(37, device=a.device) / 2)
        return b

    assert calls(halved, SQUARE.half()) == {KERNEL: 1}


def doubled(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.diagonal().mul_(2)
    return y


def filled(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x * 3).fill_diagonal_(float("-inf")), 1)


def filled_tall(x: torch.Tensor) -> torch.Tensor:
    return (x[:, :20] * 3).fill_diagonal_(1.5)


def filled_wide(x: torch.Tensor) -> torch.Tensor:
    return (x[:11] * 3).fill_diagonal_(1.5)


def filled_turned(x: torch.Tensor) -> torch.Tensor:
    return (x[:11].t() * 3).fill_diagonal_(1.5)


def of_one_matrix(x: torch.Tensor) -> torch.Tensor:
    y = x.repeat(3, 1, 1) * 2
    y[1].diagonal(2).zero_()
    return y


@pytest.mark.parametrize("function", [doubled, filled, filled_tall, filled_wide, filled_turned, of_one_matrix])
def test_what_comes_before_and_after_is_the_same_kernel(function: Callable[..., torch.Tensor]) -> None:
    assert calls(function, SQUARE) == {KERNEL: 1}


def test_steps_in_memory_that_are_no_diagonal() -> None:
    def spread(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.as_strided((9,), (38,), 3).zero_()
        y.as_strided((30,), (36,), 36).fill_(1)
        y.as_strided((9,), (38,)).zero_()
        return y

    check(spread, SQUARE)


def test_a_tall_matrix_is_filled_beyond_its_square_where_it_is_asked_to() -> None:
    check(lambda x: (x[:, :10] * 3).fill_diagonal_(1.5, wrap=True), SQUARE)


def test_switched_off_the_tensor_is_copied_first() -> None:
    with config.patch(graph_passes="none"):
        assert calls(doubled, SQUARE) == {KERNEL: 2}


def test_of_an_input_only_the_diagonal_is_written() -> None:
    def write(x: torch.Tensor, values: torch.Tensor) -> None:
        x.diagonal(-1).copy_(values)

    check(write, SQUARE.clone(), torch.arange(36.0))


def test_the_result_of_a_product_is_written_to() -> None:
    """The product is in memory: a choice for each of its elements would read and write them all once more."""

    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x).fill_diagonal_(0)

    with config.patch(graph_passes="none"):
        expected = calls(product, SQUARE)
    assert calls(product, SQUARE) == expected


@pytest.mark.parametrize("function", [torch.trace, lambda x: x.diagonal(3).exp().sum(), torch.diag])
def test_gradients(function: Callable[..., torch.Tensor]) -> None:
    check(function, SQUARE.clone().requires_grad_(), backward=True)


@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (9, 5), (1, 4)], ids=str)
def test_the_gradient_of_a_trace_is_one_kernel(shape: tuple[int, int]) -> None:
    def gradient(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.trace_backward(weight, x.shape) * 2

    assert calls(gradient, torch.randn(shape), torch.tensor(3.0)) == {KERNEL: 1}


def test_any_size_with_one_compile() -> None:
    compiled = torch.compile(doubled, dynamic=True, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    for size in (5, 24, 65):
        check(doubled, torch.randn(size, size), compiled=compiled)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_an_offset_and_sides_of_any_size() -> None:
    def replaced(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.diagonal_scatter(values, 2) + 1

    compiled = torch.compile(replaced, dynamic=True, fullgraph=True)
    for rows, columns in ((5, 9), (9, 5), (24, 24)):
        tensor = torch.randn(rows, columns)
        check(replaced, tensor, torch.randn(tensor.diagonal(2).shape), compiled=compiled)

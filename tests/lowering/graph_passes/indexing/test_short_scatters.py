"""Writes by loaded indices into short rows: each element of a row looks for what is written to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._inductor.utils import run_and_get_code, run_fw_bw_and_get_code

import inductor_npu.config as config
from inductor_npu.lowering.graph_passes.indexing.short_scatters import longest_row
from tests.compile.helpers import assert_equal, check
from tests.lowering.graph_passes.calls import KERNEL, calls, count_calls


def add(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.scatter_add(x, 1, index, y)


def add_outer(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.scatter_reduce(x[:, : y.shape[1]], 0, index, y, "sum")


def write(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.scatter(x, -1, index, y)


def write_number(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.scatter(x, 1, index, 3)


def write_between(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.scatter(x[:, :, None] * 2, 1, index[:, :, None], y[:, :, None])


def add_columns(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_add(1, index[0], y)


def write_columns(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_copy(1, index[0], y)


def put(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[0].index_put((index[0] - 20,), y[0], accumulate=True)


def add_pairs(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    grid = x[:, :32].reshape(-1, 4, 8)
    return torch.ops.aten.index_put(grid, [None, index[0] % 4 - 2, index[1] % 8], y, True)


FUNCTIONS = [add, add_outer, write, write_number, write_between, add_columns, write_columns, put, add_pairs]
TYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int8]


def operands(dtype: torch.dtype, rows: int = 12, row: int = 40, count: int = 12) -> tuple[torch.Tensor, ...]:
    """Values, indices of which several are equal, and what is written."""
    x, y = (torch.randint(-100, 100, shape).to(dtype) for shape in ((rows, row), (rows, count)))
    return x, torch.randint(0, min(rows, row), (rows, count)), y


def unique(index: torch.Tensor) -> torch.Tensor:
    return torch.arange(index.shape[1]).flip(0).expand_as(index).contiguous()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_scatter_into_short_rows_is_a_kernel_without_stores_by_index(function: Callable[..., torch.Tensor]) -> None:
    x, index, y = operands(torch.float32)
    if function is write_columns:
        index = unique(index)
    # All rows have the same indices: which of them is the last one for a column is found once.
    assert calls(function, x, index, y) == {KERNEL: 2 if function is write_columns else 1}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("function", [add, write, write_number], ids=lambda function: function.__name__)
def test_values_of_any_type(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    check(function, *operands(dtype))


def test_of_several_values_for_one_place_the_last_one_stays_whatever_it_is() -> None:
    x, index, y = torch.zeros(2, 5), torch.tensor([[1, 1, 3], [4, 0, 4]]), torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    y[0, 1], y[0, 2], y[1, 2] = float("nan"), -0.0, float("-inf")
    assert check(write, x, index, y)[0, 3].signbit()


def test_conditions_are_written_as_any_value() -> None:
    x, index, y = operands(torch.int32)
    check(write, x > 0, index, y > 0)


def test_one_index_a_row_takes_no_sum_and_any_row() -> None:
    def one_hot(index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(index.shape[0], 5 * longest_row(), device=index.device).scatter(1, index, y)

    assert calls(one_hot, torch.randint(0, 5 * longest_row(), (6, 1)), torch.randn(6, 1)) == {KERNEL: 1}


def test_one_index_into_a_long_input_changes_one_element_in_place() -> None:
    def mark(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> None:
        x.index_put_((index,), y)

    x, index, y = torch.randn(5 * longest_row()), torch.tensor([-7]), torch.randn(1)
    on_npu = [operand.to("npu") for operand in (x, index, y)]
    _, (module, *_) = run_and_get_code(torch.compile(mark, fullgraph=True), *on_npu)
    assert count_calls(module) == {KERNEL: 1}
    assert_equal(on_npu[0], x.index_put((index,), y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_added_up_in_float32_and_rounded_once(dtype: torch.dtype) -> None:
    x, index = torch.full((3, 4), 1024, dtype=dtype), torch.zeros(3, 64, dtype=torch.int64)
    y = torch.full((3, 64), 0.25, dtype=dtype)  # each too little to change 1024
    result = torch.compile(add)(*(operand.to("npu") for operand in (x, index, y))).cpu()
    assert_equal(result[:, 0], torch.full((3,), 1040, dtype=dtype))
    assert_equal(result[:, 1:], x[:, 1:])


def test_what_was_there_is_not_added_where_it_is_left_out() -> None:
    def without(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.scatter_reduce.two(x, 1, index, y, "sum", include_self=False)

    check(without, *operands(torch.float32), fullgraph=False)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)], ids=str)
def test_nothing_is_written_by_no_indices(shape: tuple[int, int]) -> None:
    index = torch.zeros(shape[0], 0, dtype=torch.int64)
    for function in (add, write, write_number):
        check(function, torch.randn(shape), index, torch.randn(shape[0], 0))


def test_numbers_without_axes_are_written() -> None:
    check(lambda x, index, y: torch.scatter_add(x, 0, index, y), torch.randn(()), torch.tensor(0), torch.randn(()))
    check(lambda x, index: x.index_put((index,), x[0]), torch.randn(5), torch.tensor([3, -1, 3]))


def test_indices_of_64_bits_are_compared_in_32() -> None:
    _, (module, *_) = run_and_get_code(torch.compile(add), *(each.to("npu") for each in operands(torch.float32)))
    # PyTorch before 2.13 lets indices of a gather count from the end.
    assert ".to(tl.int32)" in module or "device_functions.index_from_start" in module
    assert "tl.int64" not in module.split("def triton_", 1)[1].split("async_compile.wait")[0]


def test_the_gradient_of_a_gather_is_one_kernel() -> None:
    def chosen(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.gather(1, index) * 2

    x, index, _ = operands(torch.float32)
    check(chosen, x.requires_grad_(), index, backward=True)


def test_an_index_that_is_no_place_is_an_error_as_before() -> None:
    x, index, y = (operand.to("npu") for operand in operands(torch.float32))
    index[3, 4] = x.shape[1]
    with pytest.raises(Exception, match="index out of bounds"):
        torch.compile(add)(x, index, y).cpu()


@pytest.mark.slow
def test_an_index_before_the_first_place_from_the_end_is_an_error_as_before() -> None:
    x, index, y = (operand.to("npu") for operand in operands(torch.float32))
    index[0, 4] = 20 - x.shape[1] - 1  # put takes 20 away
    with pytest.raises(Exception, match="index out of bounds"):
        torch.compile(put)(x, index, y).cpu()


@pytest.mark.parametrize("row", [longest_row(), longest_row() + 1])
def test_long_rows_are_left_to_stores_by_index(row: int) -> None:
    def with_zeros(index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(index.shape[0], row, device=index.device).scatter_add(1, index, y)

    _, index, y = operands(torch.float32)
    assert calls(with_zeros, index, y) == {KERNEL: 1 if row == longest_row() else 2}


def test_switched_off_elements_are_stored_by_index() -> None:
    def with_zeros(index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(index.shape[0], 40, device=index.device).scatter_add(1, index, y)

    _, index, y = operands(torch.float32)
    with config.patch(graph_passes="none"):
        assert calls(with_zeros, index, y) == {KERNEL: 2}


def test_the_gradient_of_a_large_table_of_short_rows_is_stored_by_index() -> None:
    def gradient(index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.embedding_dense_backward(y, index, 1000, -1, False)

    assert calls(gradient, torch.randint(0, 1000, (30,)), torch.randn(30, 4)) == {KERNEL: 2}


def test_indices_that_are_computed_in_rows_of_less_than_a_block_are_left_to_stores_by_index() -> None:
    def gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.as_strided_copy(x, (2, 2, 2, 2), (1, 1, 1, 1)) * y

    x = torch.randn(16, device="npu", requires_grad=True)
    _, modules = run_fw_bw_and_get_code(lambda: torch.compile(gradient)(x, torch.ones((), device="npu")))
    assert "tl.atomic_add" in modules[-1]
    assert_equal(x.grad, torch.tensor([1.0, 4, 6, 4, 1, *[0] * 11]))


def test_rows_that_an_index_chooses_are_written_as_rows() -> None:
    def add_rows(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add(0, index, y)

    x = torch.randn(12, 40)
    assert calls(add_rows, x, torch.randint(0, 12, (5,)), torch.randn(5, 40)) == {KERNEL: 2}


def test_sizes_that_are_not_known_are_left_to_stores_by_index() -> None:
    compiled = torch.compile(add, dynamic=True, fullgraph=True)
    for rows in (5, 9):
        check(add, *operands(torch.float32, rows), compiled=compiled)

"""Parts of dynamic tensors that have one row: a guard says so, and operators spread the row over longer axes. Values
are small integers, which every dtype adds up without rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compile.helpers import check

# Of three rows, each gives parts of two rows and of one.
PARTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "chunks": lambda x: x.chunk(2),
    "sections": lambda x: x.split([x.shape[0] - x.shape[0] // 2, x.shape[0] // 2]),
    "slices": lambda x: (x[x.shape[0] // 2 :], x[: x.shape[0] // 2]),
}


def integers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()


def test_gradients_of_products_of_parts_sum_along_one_row() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cat([part @ w for part in x.chunk(2)])

    check(fn, integers(3, 7, dtype=torch.bfloat16), integers(7, 64, dtype=torch.bfloat16), backward=True, dynamic=True)


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS)
def test_products_that_a_row_and_a_column_of_one_part_give(parts: str) -> None:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        *_, row = PARTS[parts](x)
        column = row.t() * 2
        stack = row.abs().expand(3, *row.shape)
        return [column @ column.neg().t(), row.t() @ row, stack.mT @ stack, row @ column, torch.addmm(row, column, row)]

    check(fn, integers(3, 7, dtype=torch.bfloat16), backward=True, dynamic=True)


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS)
def test_a_computed_row_is_spread(parts: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        *_, row = PARTS[parts](x)
        row, column = row.abs(), row.t() * 2
        selected = torch.where(row > 0, w.t(), row)
        return [row * w.t(), selected, row.expand(5, w.shape[0]), column.expand(-1, 4) - 1, (column + w).sum(0)]

    check(fn, integers(3, 7), integers(7, 40), backward=True, dynamic=True)


def test_indices_and_values_of_one_element_are_spread() -> None:
    def fn(x: torch.Tensor, places: torch.Tensor, table: torch.Tensor) -> list[torch.Tensor]:
        rows = places.chunk(2)[-1] * 2
        columns = torch.arange(table.shape[1], device=x.device)
        written = table.clone()
        written[columns] = x.chunk(2)[-1] * 3
        return [table[rows, columns], written, x.chunk(2)[-1].neg().reshape(1, -1) + table]

    inputs = integers(3, 5).detach(), torch.tensor([1, 0, 2]), integers(9, 5).detach()
    check(fn, *inputs, dynamic=True)

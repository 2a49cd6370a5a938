"""Several conditions on dynamic sizes at once, taken as numbers and as truth values."""

from __future__ import annotations

import torch

from tests.compile.helpers import check


def test_combined_conditions_are_numbers_at_each_size() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        both, either = (rows >= 4) & (rows % 2 == 0), (rows >= 4) | (columns < 3)
        return (
            torch.full((rows, 2), both, dtype=torch.float32, device=x.device) + x.sum(),
            torch.full((2,), both, device=x.device),
            torch.full((2,), torch.sym_not(either), dtype=torch.int64, device=x.device),
            x * either,
        )

    compiled = torch.compile(fn, fullgraph=True, dynamic=True)
    for shape in ((6, 3), (7, 5), (2, 2), (2, 7)):
        check(fn, torch.randn(shape), compiled=compiled)

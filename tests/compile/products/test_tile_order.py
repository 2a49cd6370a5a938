"""Products whose operands do not fit L2: their tiles are numbered in groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from inductor_npu import providers
from tests.compile.helpers import check, code_of, to_npu
from tests.compile.products.test_values import calls_of_the_library, random


@pytest.fixture(autouse=True)
def small_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of 1 MiB instead of 192."""
    chip = replace(providers.current_target(), l2=2**20)
    monkeypatch.setattr(providers, "current_target", lambda: chip)


def groups(*inputs: torch.Tensor) -> list[str]:
    """The lines that say the order of the one kernel of a product."""
    sources = code_of(torch.matmul, *map(to_npu, inputs))
    assert calls_of_the_library(sources) == 0
    return [line.strip() for source in sources for line in source.splitlines() if "tiles along" in line]


@pytest.mark.parametrize("sizes", [(700, 301, 1900), (1900, 301, 700), (1111, 640, 1111)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_and_columns(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, inner, columns = sizes
    inner = inner * 4 // dtype.itemsize
    operands = random(rows, inner, dtype=dtype), random(inner, columns, dtype=dtype)
    check(torch.matmul, *operands)
    assert len(groups(*operands)) == 1


def test_a_batch_and_what_follows() -> None:
    operands = random(3, 701, 260), random(3, 260, 1300)
    check(lambda a, b: torch.relu(a @ b + 1), *operands)
    assert len(groups(*operands)) == 1


def test_a_turned_result() -> None:
    operands = random(1500, 300), random(300, 700)
    check(lambda a, b: (a @ b).t().contiguous(), *operands)
    assert len(groups(*operands)) == 1


def test_dynamic_sizes() -> None:
    """The group is of what was seen first; other sizes are right, too."""
    fn = torch.compile(torch.matmul, dynamic=True)
    for rows, inner, columns in [(700, 301, 1900), (60, 300, 1901), (1901, 17, 703)]:
        operands = random(rows, inner), random(inner, columns)
        torch.testing.assert_close(fn(*map(to_npu, operands)).cpu(), torch.matmul(*operands), rtol=1e-4, atol=1e-4)

"""Products with few tiles and a long sum: a product for each part of the sum, and one kernel that adds them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compile.helpers import assert_equal, check, code_of, kernel_count, to_npu
from tests.compile.products.test_values import HALVES, calls_of_the_library, random


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: their long sums are exact in float32, whatever the order."""
    return torch.randint(-2, 3, shape).to(dtype)


def check_split(fn: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """`fn` agrees with eager, as one kernel of products and one that adds them up."""
    check(fn, *inputs)
    sources = code_of(fn, *map(to_npu, inputs))
    assert kernel_count(sources) == 2 and calls_of_the_library(sources) == 0
    return sources


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("sizes", [(16, 65536, 16), (2, 40000, 3), (33, 48000, 17)], ids=str)
def test_long_sums_of_few_tiles(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, inner, columns = sizes
    check_split(torch.mm, whole(rows, inner, dtype=dtype), whole(inner, columns, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_gradients_of_weights(dtype: torch.dtype) -> None:
    """The gradient of a weight is a sum over all rows of a batch."""
    x, w, g = whole(20_000, 32, dtype=dtype), whole(24, 32, dtype=dtype), whole(20_000, 24, dtype=dtype)
    check(lambda x, w, g: (x @ w.t()) * g, x.requires_grad_(), w.requires_grad_(), g, backward=True)


@pytest.mark.slow
def test_the_sum_is_as_exact_as_one_product() -> None:
    a, b = random(16, 65536), random(65536, 16)
    result = torch.compile(torch.mm)(to_npu(a), to_npu(b)).cpu().double()
    exact = a.double() @ b.double()
    assert ((result - exact).abs() / exact).max() < 2e-6


def test_halves_are_rounded_once() -> None:
    """Each part alone is beyond what float16 holds; the whole is not."""
    a = torch.full((16, 16384), 8.0, dtype=torch.float16)
    a[:, 8192:] = -8.0
    check_split(torch.mm, a, torch.full((16384, 16), 8.0, dtype=torch.float16))


@pytest.mark.slow
def test_integers_are_exact() -> None:
    a = torch.randint(-128, 128, (33, 40_000), dtype=torch.int8)
    b = torch.randint(-128, 128, (40_000, 48), dtype=torch.int8)
    check_split(torch._int_mm, a, b)
    check_split(lambda a, b: torch._int_mm(a, b) * 0.5, torch.full_like(a, -128), torch.full_like(b, -128))


def test_batches() -> None:
    check_split(torch.bmm, whole(3, 16, 20_000), whole(3, 20_000, 24))


def test_operands_that_are_turned_or_begin_inside_a_tensor() -> None:
    check_split(lambda a, b: (a[3:].t() @ b[3:, 2:]).t().contiguous(), whole(20_003, 40), whole(20_003, 26))


def test_what_follows_is_in_the_kernel_that_adds_up() -> None:
    sources = check_split(
        lambda c, a, b: torch.relu(torch.addmm(c, a, b) * 0.125), whole(24), whole(16, 16384), whole(16384, 24)
    )
    assert sum(source.count("tl.dot(") for source in sources) == 1


@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
def test_what_is_not_finite_stays_in_its_row(value: float) -> None:
    a, b = whole(17, 16384), whole(16384, 19)
    a[5, 4097] = value
    check_split(torch.mm, a, b)


@pytest.mark.parametrize("inner", [1000, 16411], ids=["short", "prime"])
def test_other_sums_are_not_split(inner: int) -> None:
    a, b = whole(16, inner), whole(inner, 16)
    check(torch.mm, a, b)
    assert kernel_count(code_of(torch.mm, to_npu(a), to_npu(b))) == 1


def test_dynamic_rows_need_one_compile() -> None:
    compiled, b = torch.compile(torch.mm, fullgraph=True), whole(16384, 24)
    for rows in (5, 40, 300):
        a = whole(rows, 16384)
        moved = to_npu(a)
        torch._dynamo.mark_dynamic(moved, 0)
        with torch._dynamo.config.patch(error_on_recompile=rows != 5):
            assert_equal(compiled(moved, to_npu(b)), a @ b)


def test_a_dynamic_sum_is_not_split() -> None:
    compiled = torch.compile(torch.mm, dynamic=True, fullgraph=True)
    for inner in (16384, 20_001):
        with torch._dynamo.config.patch(error_on_recompile=inner != 16384):
            check(torch.mm, whole(16, inner), whole(inner, 24), compiled=compiled)

"""Weights of int8 for a few rows, as in decoding: the product's kernel converts them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import inductor_npu
from inductor_npu import config
from inductor_npu.errors import NpuWarning
from tests.compile.helpers import check, code_of, kernel_count, to_npu
from tests.compile.products.test_values import HALVES, calls_of_the_library

FLOATS = (torch.float32, *HALVES)


def weights(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def small(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Small integers: sums of their products with int8 are exact in float32."""
    return torch.randint(-2, 3, shape).to(dtype)


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.to(x.dtype)


def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w.to(x.dtype))


def check_kernels(kernels: int, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """`function` agrees with eager, in so many kernels and without a call of the library."""
    check(function, *inputs)
    sources = code_of(function, *map(to_npu, inputs))
    assert kernel_count(sources) == kernels and calls_of_the_library(sources) == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 512, 264), (5, 33, 19), (16, 300, 129)], ids=str)
def test_weights_of_few_rows_are_converted_in_the_kernel(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, inner, columns = sizes
    x = small(rows, inner, dtype=dtype)
    check_kernels(1, product, x, weights(inner, columns))
    check_kernels(1, linear, x, weights(columns, inner))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_weight_is_exact(dtype: torch.dtype) -> None:
    every = torch.arange(-128, 128, dtype=torch.int8).expand(8, 256).contiguous()
    check_kernels(1, product, torch.eye(8, dtype=dtype), every)


@pytest.mark.slow
def test_what_follows_is_in_the_kernel() -> None:
    """A scale for each column; a bias; a second product of the same rows, gated."""
    x, scale = small(4, 96, dtype=torch.float32), small(72, dtype=torch.float32)
    check_kernels(1, lambda x, w, scale: product(x, w) * scale, x, weights(96, 72), scale)
    check_kernels(1, lambda x, w, scale: F.linear(x, w.to(x.dtype), scale), x, weights(72, 96), scale)
    check_kernels(1, lambda x, w, v: product(x, w).relu() * product(x, v), x, weights(96, 72), weights(96, 72))


def test_a_product_of_int8_and_of_floats_are_a_kernel_each() -> None:
    x = small(4, 96, dtype=torch.float16)
    check_kernels(
        2, lambda x, w, v: product(x, w).relu() * 0.001 + x @ v, x, weights(96, 72), small(96, 72, dtype=x.dtype)
    )


@pytest.mark.slow
def test_batches_and_parts() -> None:
    check_kernels(1, product, small(3, 4, 96, dtype=torch.float16), weights(3, 96, 72))
    check_kernels(1, product, small(3, 4, 96, dtype=torch.float16), weights(96, 72))
    check_kernels(1, lambda x, w: product(x, w[3:, 5:]), small(4, 96, dtype=torch.float16), weights(99, 77))


def test_a_long_sum_is_split() -> None:
    check_kernels(2, product, small(4, 40_000, dtype=torch.float32), weights(40_000, 64))


@pytest.mark.parametrize("rows", [1, 17], ids=["one row", "many rows"])
def test_other_rows(rows: int) -> None:
    """One row is a sum on the vector cores, which read int8; for many rows the weights are converted once, before."""
    check_kernels(rows // 17 + 1, product, small(rows, 96, dtype=torch.float16), weights(96, 72))


def test_several_conversions_and_other_uses() -> None:
    """What something else needs as well is stored once."""
    x = small(4, 96, dtype=torch.float16)
    check(lambda x, w: (product(x, w), w.to(x.dtype)), x, weights(96, 72))
    check(lambda x, w: product(x, w.to(torch.float32).to(torch.int8)), x, weights(96, 72))


def test_dynamic_sizes() -> None:
    compiled = torch.compile(product, dynamic=True, fullgraph=True)
    for rows, inner in ((3, 96), (200, 40)):
        with torch._dynamo.config.patch(error_on_recompile=rows != 3):
            check(product, small(rows, inner, dtype=torch.float16), weights(inner, 72), compiled=compiled)


def test_gradients_of_the_rows() -> None:
    check(linear, small(4, 96, dtype=torch.float32).requires_grad_(), weights(72, 96), backward=True)


def test_explain_counts_the_conversion_that_is_saved() -> None:
    explained = inductor_npu.explain(
        lambda x, w: product(x, w), *map(to_npu, (small(4, 96, dtype=HALVES[0]), weights(96, 72)))
    )
    (kernel,) = explained.kernels
    inside, apart = map(int, re.findall(r"\d+", kernel.product)[:2])
    assert inside + 5000 < apart  # a launch, and what it moves


def test_eager_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_npu.codegen.scheduling import npu_scheduling

    monkeypatch.setattr(npu_scheduling, "compile_in_process", lambda name, source: RuntimeError("refused"))
    with config.patch(strict=False), pytest.warns(NpuWarning, match="mm"):
        check(product, small(4, 96, dtype=torch.float16), weights(96, 72))

"""Products of half types with a result of float32 (`out_dtype`): it is the sum itself, never rounded.

PyTorch has these operators for CUDA and XPU only: in eager, neither the CPU nor `npu` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import inductor_npu.config
from tests.compile.helpers import code_of, kernel_count, to_npu
from tests.compile.products.test_values import HALVES, calls_of_the_library, random


def check_float32(
    fn: Callable[..., torch.Tensor], *inputs: torch.Tensor, kernels: int = 1, compiled: Any = None
) -> None:
    """`fn(*inputs, out_dtype=torch.float32)` is `fn` of the inputs as float64, to bits of float32, in so many kernels.
    `compiled` is it already compiled.
    """

    def with_dtype(*args: torch.Tensor) -> torch.Tensor:
        return fn(*args, out_dtype=torch.float32)

    moved = list(map(to_npu, inputs))
    result = (compiled or torch.compile(with_dtype, fullgraph=True))(*moved)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.cpu().double(), fn(*(t.double() for t in inputs)), rtol=2e-6, atol=0)
    if compiled is None:
        sources = code_of(with_dtype, *moved)
        assert kernel_count(sources) == kernels and calls_of_the_library(sources) == 0


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("sizes", [(33, 100, 17), (1, 100, 70), (70, 100, 1), (1, 1, 7)], ids=str)
def test_mm(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, inner, columns = sizes
    check_float32(torch.mm, random(rows, inner, dtype=dtype), random(inner, columns, dtype=dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_bmm(dtype: torch.dtype) -> None:
    check_float32(torch.bmm, random(3, 17, 40, dtype=dtype), random(3, 40, 24, dtype=dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("bias", [(25,), (20, 25)], ids=str)
def test_addmm(bias: tuple[int, ...], dtype: torch.dtype) -> None:
    def fn(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **options: torch.dtype) -> torch.Tensor:
        return torch.addmm(c, a, b, beta=0.5, alpha=2, **options)

    for added in (torch.float32, dtype):
        check_float32(fn, random(*bias, dtype=added), random(20, 30, dtype=dtype), random(30, 25, dtype=dtype))


def test_layouts() -> None:
    a, b = random(30, 41, dtype=torch.float16), random(25, 60, dtype=torch.float16)
    check_float32(lambda a, b, **options: torch.mm(a.t(), b.t()[::2], **options), a, b, kernels=2)


def test_dynamic_sizes_need_one_compile() -> None:
    compiled = torch.compile(lambda a, b: torch.mm(a, b, out_dtype=torch.float32), fullgraph=True, dynamic=True)
    for rows, inner in ((20, 30), (7, 41), (300, 200)):
        with torch._dynamo.config.patch(error_on_recompile=rows != 20):
            operands = (random(*shape, dtype=torch.float16) for shape in ((rows, inner), (inner, 25)))
            check_float32(torch.mm, *operands, compiled=compiled)


def test_a_long_sum_is_split() -> None:
    check_float32(
        torch.mm, *(random(*shape, dtype=torch.bfloat16) for shape in ((16, 20_000), (20_000, 16))), kernels=2
    )


def test_a_sum_over_nothing_is_zero() -> None:
    a, b = (torch.empty(shape, dtype=torch.float16, device="npu") for shape in ((5, 0), (0, 7)))
    result = torch.compile(lambda a, b: torch.mm(a, b, out_dtype=torch.float32))(a, b)
    assert result.dtype == torch.float32 and result.shape == (5, 7) and not result.any()


def test_what_no_kernel_computes_is_an_error_with_the_reason() -> None:
    a, b = (torch.ones(shape, dtype=torch.float64, device="npu") for shape in ((5, 6), (6, 7)))
    with inductor_npu.config.patch(templates="all"), pytest.raises(Exception, match="do not multiply"):
        torch.compile(lambda a, b: torch.addmm(b[0], a, b, out_dtype=a.dtype))(a, b)

"""Matrix products as kernels of the cube cores: every operator, size, layout and dtype, against eager on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check, code_of, kernel_count, to_npu

HALVES = (torch.float16, torch.bfloat16)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers whose products of up to a few hundred terms do not cancel to nothing: errors stay relative."""
    return torch.rand(shape, dtype=dtype) + 0.25


def calls_of_the_library(sources: list[str]) -> int:
    return sum(source.count("extern_kernels.") for source in sources)


def check_kernel(fn: Callable[..., Any], *inputs: Any, kernels: int = 1, **options: Any) -> None:
    """`fn` agrees with eager, in so many kernels and without a call of the library."""
    check(fn, *inputs, **options)
    sources = code_of(fn, *(to_npu(tensor) for tensor in inputs))
    assert kernel_count(sources) == kernels
    assert calls_of_the_library(sources) == 0


@pytest.mark.parametrize("rows", [2, 7, 130])
@pytest.mark.parametrize("inner", [1, 2, 33, 300])
@pytest.mark.parametrize("columns", [3, 129])
def test_sizes(rows: int, inner: int, columns: int) -> None:
    check_kernel(torch.mm, random(rows, inner), random(inner, columns))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("sizes", [(1, 300, 70), (70, 300, 1), (1, 300, 1), (1, 1, 70)], ids=str)
def test_one_row_or_column_is_a_sum_on_the_vector_cores(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, inner, columns = sizes
    a, b = random(rows, inner, dtype=dtype), random(inner, columns, dtype=dtype)
    check(torch.mm, a, b)
    sources = code_of(torch.mm, to_npu(a), to_npu(b))
    assert calls_of_the_library(sources) == 0 and "tl.dot(" not in "".join(sources)


@pytest.mark.parametrize("sizes", [(4097, 64, 48), (48, 4097, 64), (48, 64, 4097)], ids=str)
def test_long_sizes(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    check_kernel(torch.mm, random(rows, inner), random(inner, columns))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("left", ["rows", "columns"])
@pytest.mark.parametrize("right", ["rows", "columns"])
def test_operands_lie_along_rows_or_columns(left: str, right: str, dtype: torch.dtype) -> None:
    a = random(60, 100, dtype=dtype) if left == "rows" else random(100, 60, dtype=dtype).t()
    b = random(100, 40, dtype=dtype) if right == "rows" else random(40, 100, dtype=dtype).t()
    check_kernel(torch.mm, a, b)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_the_result_may_be_stored_turned(dtype: torch.dtype) -> None:
    check_kernel(lambda a, b: (a @ b).t().contiguous(), random(40, 60, dtype=dtype), random(60, 50, dtype=dtype))


@pytest.mark.slow
def test_operands_with_steps_are_copied_once() -> None:
    check_kernel(lambda a, b: a[::2, ::2] @ b[:, ::3], random(40, 60), random(30, 90), kernels=3)


def test_operands_that_begin_inside_a_tensor() -> None:
    check_kernel(lambda a, b: a[3:, 5:] @ b[5:, 2:-1], random(43, 65), random(65, 33))


def test_operands_that_are_gathered() -> None:
    """As the last token of each text: [batch, positions, width] at [batch] positions."""
    tokens, last = random(6, 9, 48), torch.tensor([3, 8, 0, 1, 7, 2])

    def project(tokens: torch.Tensor, last: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return tokens[torch.arange(6, device=tokens.device), last] @ w

    check_kernel(project, tokens, last, random(48, 33), kernels=2)


@pytest.mark.slow
def test_one_row_for_all() -> None:
    check_kernel(lambda a, b: a.expand(20, 30) @ b, random(1, 30), random(30, 50), kernels=2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("sizes", [(3, 17, 33, 19), (2, 1, 33, 19), (2, 17, 33, 1), (1, 17, 1, 19)], ids=str)
def test_batches(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    batch, rows, inner, columns = sizes
    a, b = random(batch, rows, inner, dtype=dtype), random(batch, inner, columns, dtype=dtype)
    check_kernel(torch.bmm, a, b)
    check_kernel(torch.matmul, a, b[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_heads_are_read_where_they_are(dtype: torch.dtype) -> None:
    """Eager copies both to one batch of matrices."""
    q, k = random(2, 17, 3, 32, dtype=dtype), random(2, 19, 3, 32, dtype=dtype)
    check_kernel(lambda q, k: q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1), q, k)


@pytest.mark.slow
def test_matrices_of_a_batch_are_read_where_any_division_of_their_number_says() -> None:
    def fn(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        each, times = left[:, None].expand(4, 6, 20, 24), right[:, None].expand(6, 4, 24, 36)
        return torch.bmm(each.reshape(24, 20, 24), times.reshape(24, 24, 36))

    check_kernel(fn, random(4, 20, 24), random(6, 24, 36))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("bias", [(25,), (20, 25), (1, 25), (20, 1), ()], ids=str)
def test_addmm(bias: tuple[int, ...], dtype: torch.dtype) -> None:
    c, a, b = random(*bias, dtype=dtype), random(20, 30, dtype=dtype), random(30, 25, dtype=dtype)
    check_kernel(torch.addmm, c, a, b)
    check_kernel(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), c, a, b)


def test_what_is_scaled_by_zero_is_not_read() -> None:
    c = torch.full((25,), torch.nan)
    check_kernel(lambda c, a, b: torch.addmm(c, a, b, beta=0), c, random(20, 30), random(30, 25))


def test_baddbmm() -> None:
    c, a, b = random(3, 20, 25), random(3, 20, 30), random(3, 30, 25)
    check_kernel(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), c, a, b)


@pytest.mark.parametrize("sizes", [(33, 64, 48), (17, 200, 3), (130, 1, 40)], ids=str)
def test_int8_sums_in_int32(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    a = torch.randint(-128, 128, (rows, inner), dtype=torch.int8)
    b = torch.randint(-128, 128, (inner, columns), dtype=torch.int8)
    check(torch._int_mm, a, b)
    extreme = torch.full_like(a, -128), torch.full_like(b, -128)
    check(torch._int_mm, *extreme)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32], ids=str)
def test_what_the_cube_does_not_take_calls_the_library(dtype: torch.dtype) -> None:
    a, b = (torch.randint(-9, 9, shape).to(dtype) for shape in ((20, 30), (30, 25)))
    check(torch.mm, a, b)
    assert calls_of_the_library(code_of(torch.mm, to_npu(a), to_npu(b))) == 1


@pytest.mark.parametrize("sizes", [(0, 30, 20), (20, 0, 30), (20, 30, 0), (0, 0, 0)], ids=str)
def test_empty(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    check(lambda a, b: (a @ b, a @ b + 1), random(rows, inner), random(inner, columns))


@pytest.mark.slow
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf], ids=str)
@pytest.mark.parametrize("place", [(0, 0), (36, 50), (36, 0), (0, 50)], ids=str)
def test_what_is_not_finite_stays_in_its_rows_and_columns(place: tuple[int, int], value: float) -> None:
    """Also beside the end of a tile, whose lanes beyond the end are zeros."""
    a, b = random(37, 51), random(51, 43)
    a[place] = value
    check_kernel(torch.mm, a, b)
    check_kernel(torch.mm, b.t().contiguous(), a.t().contiguous())


def test_accumulation_is_in_float32() -> None:
    """4096 ones in float16 are 4096, where float16 itself stops at 2048."""
    check_kernel(torch.mm, torch.ones(17, 4096, dtype=torch.float16), torch.ones(4096, 17, dtype=torch.float16))


def test_float32_is_multiplied_as_such() -> None:
    """Against float64: fewer bits of the operands, as in TF32, would be a thousand times worse."""
    a, b = random(65, 500), random(500, 65)
    result = torch.compile(torch.mm)(a.to("npu"), b.to("npu")).cpu().double()
    exact = a.double() @ b.double()
    assert ((result - exact).abs() / exact).max() < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_gradients(dtype: torch.dtype) -> None:
    x, w, b = random(2, 33, 50, dtype=dtype), random(40, 50, dtype=dtype), random(40, dtype=dtype)
    inputs = [tensor.requires_grad_() for tensor in (x, w, b)]
    check(lambda x, w, b: F.linear(x, w, b).tanh(), *inputs, backward=True)


def test_two_dynamic_sizes_need_one_compile() -> None:
    compiled = torch.compile(lambda x, w: torch.relu(x @ w), dynamic=True, fullgraph=True)
    for rows, inner in ((5, 7), (130, 300), (17, 64)):
        with torch._dynamo.config.patch(error_on_recompile=rows != 5):
            check(lambda x, w: torch.relu(x @ w), random(rows, inner), random(inner, 40), compiled=compiled)


def test_templates_none_calls_the_library() -> None:
    import inductor_npu.config

    with inductor_npu.config.patch(templates="none"):
        sources = code_of(torch.mm, random(20, 30).to("npu"), random(30, 25).to("npu"))
    assert calls_of_the_library(sources) == 1

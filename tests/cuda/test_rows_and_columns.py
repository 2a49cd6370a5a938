"""Loops that reduce rows, and loops that sum columns of the same tensors, are one kernel for a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config as inductor_config
from torch._inductor.utils import run_and_get_code

from inductor_npu import config

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("for_h100")]

ROWS, COLUMNS = 49152, 128  # enough for parts of 64 rows on each core
PAIR = "for part in range("


def gradients(
    function: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], upstream: torch.Tensor
) -> list[torch.Tensor]:
    operands = [operand.detach().requires_grad_() for operand in operands]
    return [gradient.cpu() for gradient in torch.autograd.grad(function(*operands), operands, upstream)]


def compiled_gradients(
    function: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], upstream: torch.Tensor
) -> tuple[list[torch.Tensor], str]:
    """Gradients on npu, and the generated code."""
    there = [operand.npu() for operand in operands]
    compiled = torch.compile(function, dynamic=False)
    found, sources = run_and_get_code(lambda: gradients(compiled, there, upstream.npu()))
    return found, "\n".join(sources)


def in_float64(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.double() for tensor in tensors]


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight)


def norm_of_a_sum(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(layer_norm(x + y, weight, bias))


def operands_of(function: Callable[..., torch.Tensor], rows: Sequence[int], columns: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    wide = {norm_of_a_sum: 2}.get(function, 1)
    narrow = {rms_norm: 1}.get(function, 2)
    return [torch.randn(*rows, columns) for _ in range(wide)] + [torch.randn(columns) for _ in range(narrow)]


@pytest.mark.parametrize(
    ("function", "rows", "columns"),
    [
        (layer_norm, [ROWS], COLUMNS),
        pytest.param(layer_norm, [ROWS + 3], 131, marks=pytest.mark.slow),  # tiles end within rows and columns
        pytest.param(layer_norm, [96, 8, 64], COLUMNS, marks=pytest.mark.slow),
        pytest.param(rms_norm, [ROWS], COLUMNS, marks=pytest.mark.slow),
        pytest.param(norm_of_a_sum, [ROWS], COLUMNS, marks=pytest.mark.slow),
    ],
)
def test_a_norms_backward_pass_reads_its_tensors_once(
    function: Callable[..., torch.Tensor], rows: Sequence[int], columns: int
) -> None:
    operands, upstream = operands_of(function, rows, columns), torch.randn(*rows, columns)
    found, code = compiled_gradients(function, operands, upstream)
    assert code.count(PAIR) == 1
    assert re.search(r"# \d+ tiles in \d+ parts, on ", code)
    for gradient, expected in zip(found, gradients(function, in_float64(operands), upstream.double()), strict=True):
        torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=2e-5 * expected.abs().max().item())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_short_floats_are_those_of_float32(dtype: torch.dtype) -> None:
    operands = [operand.to(dtype) for operand in operands_of(layer_norm, [ROWS], COLUMNS)]
    upstream = torch.randn(ROWS, COLUMNS).to(dtype)
    found, code = compiled_gradients(layer_norm, operands, upstream)
    assert code.count(PAIR) == 1
    for gradient, expected in zip(found, gradients(layer_norm, in_float64(operands), upstream.double()), strict=True):
        # One rounding to the dtype of the gradient, and those of the mean and the deviation that are saved.
        torch.testing.assert_close(gradient.double(), expected, rtol=1.6e-2, atol=1e-2 * expected.abs().max().item())


def pairs_in(function: Callable[[torch.Tensor], Sequence[torch.Tensor]], x: torch.Tensor, **tolerance: float) -> int:
    """How many kernels of pairs `function(x)` is compiled to; its results are those of float64."""
    found, sources = run_and_get_code(torch.compile(function, dynamic=False), x.npu())
    for result, expected in zip(found, function(x.double()), strict=True):
        torch.testing.assert_close(result.cpu().double(), expected, **tolerance)
    return "\n".join(sources).count(PAIR)


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By rows and by columns. For positive numbers: of others a sum may leave little."""
    return x.amax(1), x.sum(0)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_columns_of_several_dimensions(order: tuple[int, ...]) -> None:
    """In two kernels: the loops over what is summed may have another order than the sums."""
    x = torch.rand(ROWS, 8, 16).permute(order)
    assert pairs_in(lambda x: (x.amax((1, 2)), x.sum(0)), x, rtol=1e-5, atol=1e-4) == 0


def test_the_same_tensor_by_rows_and_by_columns() -> None:
    """Not a norm; the sum over columns has other operators behind it."""
    x = torch.randn(ROWS, COLUMNS)
    assert pairs_in(lambda x: (x.amax(1), (x * x).sum(0).sqrt() + 1), x, rtol=1e-6, atol=1e-6) == 1


@pytest.mark.parametrize(
    ("rows", "columns", "setting"),
    [
        (16384, 512, {}),  # too few rows: a program for each part would write too many of them
        pytest.param(ROWS, COLUMNS, {"triton.mix_order_reduction": False}, marks=pytest.mark.slow),
    ],
)
def test_two_kernels_where_one_is_not_better(rows: int, columns: int, setting: dict[str, bool]) -> None:
    with inductor_config.patch(setting):
        assert pairs_in(both, torch.rand(rows, columns), rtol=1e-5, atol=1e-4) == 0


def test_rows_that_do_not_fit_the_tile_are_reduced_apart() -> None:
    """The kernel of a pair turns out not to have whole rows when it is planned; its loops are as before then."""
    with config.patch(reduction_tile=COLUMNS // 2):
        assert pairs_in(both, torch.rand(ROWS, COLUMNS), rtol=1e-5, atol=1e-4) == 0

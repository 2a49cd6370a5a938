"""Grouped products (mixture of experts): every form, layout and kind of groups, with gradients, against eager.

PyTorch 2.13 traces them for bfloat16, and wants rows that begin at multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

import inductor_npu
from inductor_npu import config
from inductor_npu.errors import NpuWarning
from tests.compile.helpers import assert_equal, check, code_of, kernel_count, to_npu
from tests.compile.products.test_values import calls_of_the_library

GROUPS = {
    "uneven": (5, 40, 56),
    "empty ones": (0, 7, 7, 7, 56, 56),
    "all in the first": (56, 56, 56),
    "all in the last": (0, 0, 56),
    "one": (56,),
    "of one row": tuple(range(1, 57)),
}


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.bfloat16)


def ends_of(groups: Sequence[int]) -> torch.Tensor:
    return torch.tensor(groups, dtype=torch.int32)


def multiply(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return F.grouped_mm(left, right, offs=ends)


def check_kernel(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, kernels: int = 1) -> None:
    """`function` agrees with eager, in so many kernels and without a call of the library."""
    check(function, *inputs)
    sources = code_of(function, *map(to_npu, inputs))
    assert kernel_count(sources) == kernels and calls_of_the_library(sources) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_rows_with_gradients(name: str) -> None:
    """Tokens sorted by expert, times a matrix for each; the gradient of the matrices sums along the groups."""
    ends = ends_of(GROUPS[name])
    tokens, experts = halves(56, 40), halves(len(ends), 40, 72)
    check_kernel(multiply, tokens, experts, ends)
    check(multiply, tokens.requires_grad_(), experts.requires_grad_(), ends, backward=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uneven", "empty ones"])
def test_groups_of_columns_and_along_the_sum(name: str) -> None:
    ends = ends_of(GROUPS[name])
    check_kernel(multiply, halves(len(ends), 24, 40), halves(40, 56), ends)
    check_kernel(multiply, halves(56, 24).t(), halves(56, 40), ends)
    check_kernel(multiply, halves(24, 56), halves(40, 56).t(), ends)


@pytest.mark.slow
def test_two_batches_of_matrices() -> None:
    def batch(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return F.grouped_mm(left, right)

    check_kernel(batch, halves(3, 17, 40), halves(3, 40, 24))
    check(batch, halves(3, 17, 40).requires_grad_(), halves(3, 40, 24).requires_grad_(), backward=True)


@pytest.mark.slow
def test_turned_and_partial_operands() -> None:
    """Weights as [experts, out, in]; tensors that begin inside others."""
    ends = ends_of((5, 40, 56))
    check_kernel(lambda x, w, ends: multiply(x, w.transpose(1, 2), ends), halves(56, 40), halves(3, 72, 40), ends)
    check_kernel(lambda x, w, ends: multiply(x[3:, 8:], w[1:, :, 8:], ends), halves(59, 48), halves(4, 40, 72), ends)
    check_kernel(
        lambda x, w, ends: multiply(x, w, ends[1::2]), halves(56, 40), halves(2, 40, 72), ends_of((0, 9, 9, 56))
    )


def test_larger_than_a_tile() -> None:
    ends = ends_of((100, 101, 700))
    check_kernel(multiply, halves(700, 520), halves(3, 520, 304), ends)
    check_kernel(multiply, halves(700, 304).t(), halves(700, 136), ends)


def test_what_is_in_no_group_is_ignored() -> None:
    """Rows of the result that belong to none are memory without contents, as in eager; sums do not see such terms."""
    ends = ends_of((5, 40))
    tokens, experts, gradient = halves(56, 40), halves(2, 40, 72), halves(56, 72)
    tokens[40:] = gradient[40:] = torch.nan
    result = torch.compile(multiply, fullgraph=True)(*map(to_npu, (tokens, experts, ends)))
    assert_equal(result[:40], multiply(tokens, experts, ends)[:40])
    check_kernel(lambda x, g, ends: multiply(x.t(), g, ends), tokens, gradient, ends)


@pytest.mark.parametrize("rows", [0, 56])
def test_no_terms_and_no_rows(rows: int) -> None:
    ends = ends_of((0, 0, rows))
    check(multiply, halves(rows, 40), halves(3, 40, 72), ends)
    check(lambda x, g, ends: multiply(x.t(), g, ends), halves(rows, 40), halves(rows, 72), ends)


def test_dynamic_sizes_need_one_compile() -> None:
    compiled = torch.compile(multiply, dynamic=True, fullgraph=True)
    for rows, ends in ((56, (5, 40, 56)), (300, (0, 100, 300)), (9, (3, 3, 9))):
        with torch._dynamo.config.patch(error_on_recompile=rows != 56):
            check(multiply, halves(rows, 40), halves(3, 40, 72), ends_of(ends), compiled=compiled)


@pytest.mark.slow
def test_a_mixture_of_experts() -> None:
    """Tokens are sorted by expert, go through a gated network of it, and back: as close to the exact result and
    gradients as eager is, which rounds as often.
    """

    def mixture(
        x: torch.Tensor, expert: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor
    ) -> torch.Tensor:
        order = expert.argsort(stable=True)
        ends = (expert[:, None] == torch.arange(4, device=x.device)).sum(0).cumsum(0).to(torch.int32)
        rows = x[order]
        hidden = F.silu(multiply(rows, gate, ends)) * multiply(rows, up, ends)
        return torch.zeros_like(x).index_copy(0, order, multiply(hidden, down, ends))

    def exactly(
        x: torch.Tensor, expert: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor
    ) -> torch.Tensor:
        hidden = F.silu(x[:, None] @ gate[expert]) * (x[:, None] @ up[expert])
        return (hidden @ down[expert])[:, 0]

    expert = torch.randint(0, 4, (50,))
    inputs = halves(50, 32), halves(4, 32, 64) / 6, halves(4, 32, 64) / 6, halves(4, 64, 32) / 8

    def results(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> list[torch.Tensor]:
        x, *weights = (tensor.detach().requires_grad_() for tensor in tensors)
        y = function(x, expert.to(x.device), *weights)
        y.sum().backward()
        return [y.detach(), *(tensor.grad for tensor in (x, *weights))]

    compiled = results(torch.compile(mixture, fullgraph=True), *map(to_npu, inputs))
    for got, eager, exact in zip(
        compiled, results(mixture, *inputs), results(exactly, *(tensor.double() for tensor in inputs)), strict=True
    ):
        assert (got.cpu() - exact).norm() <= 1.1 * (eager - exact).norm()


def test_eager_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs where a kernel does not compile."""
    from inductor_npu.codegen.scheduling import npu_scheduling

    monkeypatch.setattr(npu_scheduling, "compile_in_process", lambda name, source: RuntimeError("refused"))
    of_rows, of_columns = (halves(56, 40), halves(3, 40, 72)), (halves(3, 24, 40), halves(40, 56))
    for operands in (of_rows, of_columns, (halves(56, 24).t(), halves(56, 40))):
        with config.patch(strict=False), pytest.warns(NpuWarning, match="grouped mm"):
            check(multiply, *operands, ends_of((5, 40, 56)))


def test_the_library_multiplies_groups_where_kernels_are_not_wanted() -> None:
    inputs = halves(56, 40), halves(3, 40, 72), ends_of((5, 40, 56))
    with config.patch(templates="none"):
        explained = inductor_npu.explain(lambda *operands: multiply(*operands), *map(to_npu, inputs))
    (call,) = explained.library_calls
    assert (call.operator, call.reason) == ("extern_kernels._grouped_mm", "INDUCTOR_NPU_TEMPLATES=none")

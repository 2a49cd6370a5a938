"""Batches of vectors times matrices: loops like any other, fused with what is around them, rounded once."""

from __future__ import annotations

import pytest
import torch

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls


def scores(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """[heads, 1, width] by [heads, positions, width]: [heads, 1, positions]."""
    return torch.relu(torch.bmm(query, keys.transpose(1, 2)) * 0.125)


def mixed(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[heads, 1, positions] by [heads, positions, width]: [heads, 1, width]."""
    return torch.relu(torch.bmm(weights, values))


def columns(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """[batch, rows, inner] by [batch, inner, 1]: [batch, rows, 1]."""
    return torch.bmm(matrix, vector) + 1


CASES = [
    (scores, (torch.randn(6, 1, 32), torch.randn(6, 40, 32))),
    (mixed, (torch.randn(6, 1, 40), torch.randn(6, 40, 32))),
    (columns, (torch.randn(5, 24, 32), torch.randn(5, 32, 1))),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("function", "inputs"), CASES, ids=["one query", "one row", "one column"])
def test_a_vector_times_a_matrix_is_one_kernel(function: object, inputs: tuple, dtype: torch.dtype) -> None:
    assert calls(function, *[tensor.to(dtype) for tensor in inputs]) == {KERNEL: 1}


def test_switched_off_it_is_the_librarys() -> None:
    with config.patch(graph_passes="none", templates="none"):
        assert calls(CASES[0][0], *CASES[0][1]) == {"bmm": 1, KERNEL: 1}


def test_matrices_stay_the_librarys() -> None:
    with config.patch(templates="none"):
        assert calls(torch.bmm, torch.randn(4, 8, 16), torch.randn(4, 16, 8)) == {"bmm": 1}


def test_gradients() -> None:
    inputs = [tensor.clone().requires_grad_() for tensor in CASES[0][1]]
    check(scores, *inputs, backward=True)


def test_any_number_of_positions_with_one_compile() -> None:
    compiled = torch.compile(scores, dynamic=True, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    for positions in (7, 40, 65):
        check(scores, torch.randn(6, 1, 32), torch.randn(6, positions, 32), compiled=compiled)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1

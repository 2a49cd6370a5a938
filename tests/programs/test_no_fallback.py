"""What Inductor generates code for on GPUs it generates code for on npu: right values, and nothing left to eager but
what docs/operators.md lists, which stock Inductor leaves to eager on CUDA as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import inductor_npu
from tests.compile.helpers import check, to_npu
from tests.programs.operator_families import ON_CUDA, PROGRAMS, Program

DOCS = Path(__file__).parents[2] / "docs" / "operators.md"


def documented() -> dict[str, set[str]]:
    """Program: the operators that it leaves to eager, from the table in the documentation."""
    rows = [[cell.strip() for cell in line.split("|")] for line in DOCS.read_text().splitlines() if line[:1] == "|"]
    return {row[1]: set(row[2].replace("`", "").split(", ")) for row in rows if len(row) == 5 and row[1] in PROGRAMS}


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(each, id=name, marks=pytest.mark.slow if each.slow else pytest.mark.quick)
        for name, each in PROGRAMS.items()
    ],
)
def test_values_and_what_is_left_to_eager(program: Program) -> None:
    with inductor_npu.record_explanation() as recorded:
        if program.random:
            check_statistics(program)
        else:
            check(program.function, *program.inputs(), backward=program.backward)
    left = {operator for each in recorded.explanation.left_to_eager for operator in each.operators}
    assert left == documented().get(program.name, set())


def check_statistics(program: Program) -> None:
    """Shapes and dtypes of the results are those of eager, and so are their means, to within some standard errors."""
    inputs = program.inputs()
    expected = program.function(*inputs)
    moved = pytree.tree_map(to_npu, inputs)
    actual = torch.compile(program.function, fullgraph=True)(*moved)
    results = [*zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True)]
    if program.backward:
        sum(each.sum() for each in pytree.tree_leaves(actual)).backward()
        sum(each.sum() for each in pytree.tree_leaves(expected)).backward()
        results += [(got.grad, wanted.grad) for got, wanted in zip(moved, inputs)]
    for got, wanted in results:
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        spread = 6 * wanted.double().std() * (2 / wanted.numel()) ** 0.5
        torch.testing.assert_close(got.cpu().double().mean(), wanted.double().mean(), rtol=0, atol=float(spread))


def test_what_is_left_to_eager_is_left_to_eager_on_cuda() -> None:
    on_cuda = json.loads(ON_CUDA.read_text())["left_to_eager"]
    assert documented()
    for program, operators in documented().items():
        assert operators <= set(on_cuda.get(program, [])), program


def _largest_and_middle(x: torch.Tensor) -> Any:
    return x.topk(5), x.topk(3, dim=0, largest=False), x.kthvalue(7), x.median(1), x.median()


@pytest.mark.skipif(not hasattr(torch._inductor.config.triton, "decompose_sort_ops"), reason="torch has no such knob")
def test_topk_and_its_relatives_are_kernels_if_inductor_is_asked_for_that() -> None:
    x = torch.randperm(20 * 60).reshape(20, 60).float()
    with (
        torch._inductor.config.patch({"triton.decompose_sort_ops": True}),
        inductor_npu.record_explanation() as recorded,
    ):
        check(_largest_and_middle, x)
    assert recorded.explanation.left_to_eager == () and recorded.explanation.kernels

"""Every pass, taken from the list of them, leaves what a graph computes as it was: for tensors of several types,
orders of memory and sizes, in forward and backward graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config as inductor_config

from inductor_npu import config
from inductor_npu.lowering.graph_passes.passes import PASSES
from inductor_npu.lowering.graph_passes.products import padded_products
from tests.compile.helpers import to_npu
from tests.lowering.graph_passes.rewrites import variants, verified

Program = tuple[Callable[..., Any], list[torch.Tensor]]
ROWS = torch.arange(32)


def _layers(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    allowed = rows[:, None] >= rows
    for _ in range(3):
        x = x + (x @ x.mT + torch.where(allowed, 0.0, float("-inf"))).softmax(-1) @ x
    return x


def _projections(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
    return [torch.sin(x @ weight) for weight in weights]


def _heads(x: torch.Tensor) -> torch.Tensor:
    query = x.reshape(2, 8, 4, 16).transpose(1, 2)
    return torch.matmul(query, query.mT).softmax(-1)


def _mutated(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    z = torch.cat([y, y * 2])
    z.index_put_((index,), y[:2])
    x.index_put_((index,), x[:2])
    return z + y.sum()


# For each pass a program that it rewrites; it gets gradients where an input needs them.
PROGRAMS: dict[str, Program] = {
    "repeated_masks": (_layers, [torch.randn(2, 32, 16), ROWS]),
    "batch_products": (_projections, [torch.randn(16, 64), *(torch.randn(64, 64) for _ in range(4))]),
    "vector_products": (lambda a, b: torch.bmm(a, b.mT) * 2, [torch.randn(6, 1, 32), torch.randn(6, 40, 32)]),
    "operand_copies": (_heads, [torch.randn(2, 8, 64, requires_grad=True)]),
    "padded_products": (lambda a, b: (a @ b).float().softmax(1), [torch.randn(16, 21), torch.randn(21, 13)]),
    "diagonals": (lambda a, b: a.diagonal_scatter(b, 1) * 2, [torch.randn(9, 9), torch.randn(8)]),
    "wide_pools": (lambda x: F.max_pool2d(x, 5, 1, 2, return_indices=True), [torch.randn(2, 3, 9, 17)]),
    "pool_gradients": (lambda x: F.max_pool2d(x * 2, 2).sin(), [torch.randn(2, 3, 8, 20, requires_grad=True)]),
    "short_gathers": (
        lambda x, index: x.log_softmax(-1).gather(-1, index[:, None]),
        [torch.randn(12, 100), torch.arange(12)],
    ),
    "short_scatters": (
        lambda x, index, y: torch.scatter_add(x, 1, index, y),
        [torch.randn(8, 33), torch.randint(0, 33, (8, 7)), torch.randn(8, 7)],
    ),
    "materialisation": (
        lambda x, w: (x.sin() + w).softmax(-1) + (x.sin() + w).sum(0) + (x.sin() + w) @ w.mT,
        [torch.randn(33, 16), torch.randn(33, 16)],
    ),
    "overlapping_writes": (_mutated, [torch.randn(4, 5), torch.tensor([0, 1])]),
    "written_concatenations": (_mutated, [torch.randn(4, 5), torch.tensor([0, 1])]),
    "narrow_accumulation": (
        lambda x, index, y: torch.index_put(x, (index,), y, True),
        [torch.zeros(9, dtype=torch.int8), torch.randint(0, 9, (40,)), torch.ones(40, dtype=torch.int8)],
    ),
}
# Those about sizes, and about what is saved for a backward pass: they have tests of their own beside this one.
ELSEWHERE = ("size_conditions", "donated_results", "saved_numbers")


def test_every_pass_has_a_program() -> None:
    assert {*PROGRAMS, *ELSEWHERE} == {each.name for each in PASSES}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_computes_the_same_before_and_after(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name == "padded_products":
        request.getfixturevalue("for_h100")
        monkeypatch.setattr(padded_products, "_LEAST_WORK", 0)
    function, inputs = PROGRAMS[name]
    rewritten = 0
    for kind, tensors in variants(inputs):
        if not _runs(function, tensors):
            continue
        torch._dynamo.reset()
        with verified() as counts, config.patch(templates="none"), inductor_config.patch(force_disable_caches=True):
            results = torch.compile(function)(*map(to_npu, tensors))
            if any(tensor.requires_grad for tensor in tensors):
                results.sum().backward()
        rewritten += counts[name]
        assert counts[name] or kind != "as they are", f"{name} does not rewrite its program"
    assert rewritten


def _runs(function: Callable[..., Any], tensors: list[torch.Tensor]) -> bool:
    """Whether eager on the CPU takes such tensors."""
    try:
        function(*(tensor.detach().clone() for tensor in tensors))
    except (RuntimeError, IndexError):
        return False
    return True

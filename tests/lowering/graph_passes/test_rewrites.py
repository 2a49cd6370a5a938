"""Every pass, taken from the list of them, leaves what a graph computes as it was: for tensors of several types,
orders of memory and sizes, in forward and backward graphs.
"""

from __future__ import annotations

import copy
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
from tests.lowering.graph_passes.rewrites import strides_of, variants, verified

Program = tuple[Callable[..., Any], list[torch.Tensor]]
ROWS = torch.arange(32)


def _layers(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    allowed = rows[:, None] >= rows
    for _ in range(3):
        x = x + (x @ x.mT + torch.where(allowed, 0.0, float("-inf"))).softmax(-1) @ x
    return x


def _rows_of_itself(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    rows = x[order]
    return rows.index_put((order,), rows)


def _written_part(x: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + x
    return torch.cat([y, x]), y.index_put((place,), y.new_ones(()))


def _counts(x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.index_put(x, (index,), y, True)


def _half(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.bfloat16)


# For each pass a program that it rewrites; it gets gradients where an input needs them.
PROGRAMS: dict[str, Program] = {
    "repeated_masks": (_layers, [torch.randn(2, 32, 16), ROWS]),
    "padded_products": (lambda a, b: (a @ b).float().softmax(1), [_half(16, 21), _half(21, 13)]),
    "wide_pools": (lambda x: F.max_pool2d(x, 5, 1, 2, return_indices=True), [torch.randn(2, 3, 9, 17)]),
    "overlapping_writes": (_rows_of_itself, [torch.randn(20, 3), torch.randperm(20)]),
    "written_concatenations": (_written_part, [torch.arange(12.0).reshape(3, 4), torch.tensor([2])]),
    "narrow_accumulation": (
        _counts,
        [torch.zeros(5000, dtype=torch.int8), torch.randint(0, 5000, (40,)), torch.ones(40, dtype=torch.int8)],
    ),
}
# Those about sizes, what is saved for a backward pass, what templates compute otherwise, and what the graph before gets
# wrong have tests of their own.
ELSEWHERE = ("lengths_of_one", "size_conditions", "saved_numbers", "without_templates", "overwritten_sources")


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
    alone = name if next(each for each in PASSES if each.name == name).optional else "none"
    rewritten = 0
    for kind, tensors in variants(inputs):
        if not _runs(function, tensors):
            continue
        torch._dynamo.reset()
        with (
            verified() as counts,
            config.patch(templates="none", graph_passes=alone),
            inductor_config.patch(force_disable_caches=True),
        ):
            results = torch.compile(function)(*map(to_npu, tensors))
            if name != "padded_products":  # whose results keep padded rows, as stock Inductor's on CUDA do
                assert strides_of(results) == strides_of(function(*map(to_npu, tensors)))
            if any(tensor.requires_grad for tensor in tensors):
                results.sum().backward()
        rewritten += counts[name]
        assert counts[name] or kind != "as they are", f"{name} does not rewrite its program"
    assert rewritten


def _runs(function: Callable[..., Any], tensors: list[torch.Tensor]) -> bool:
    """Whether eager on the CPU takes such tensors."""
    try:
        function(*(copy.deepcopy(tensor.detach()) for tensor in tensors))
    except (RuntimeError, IndexError):
        return False
    return True

"""Small products of one tensor with several weights, where the library computes them: one call, the same values,
nothing else changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn as nn

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls


class Projections(nn.Module):
    """Several linear layers of one input, and what an activation makes of them."""

    def __init__(self, count: int = 3, bias: bool = True, features: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, features, bias=bias) for _ in range(count))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sin(layer(x)) for layer in self.layers]


X = torch.randn(2, 16, 64)


@pytest.fixture(autouse=True)
def _library_computes_products() -> Iterator[None]:
    with config.patch(templates="none"):
        yield


def library(model: object, *inputs: torch.Tensor) -> dict[str, int]:
    return {name: count for name, count in calls(model, *inputs).items() if name != KERNEL}


@pytest.mark.parametrize(("bias", "count"), [(False, 8)])
def test_products_of_one_input_are_one_call(bias: bool, count: int) -> None:
    assert library(Projections(count, bias), X) == {"bmm": 1}


def test_switched_off_they_stay_as_they_were() -> None:
    with config.patch(graph_passes="none"):
        assert library(Projections(3, False), X) == {"mm": 3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_bias_stays_inside_the_product(dtype: torch.dtype) -> None:
    def projections(x: torch.Tensor, *layers: torch.Tensor) -> tuple[torch.Tensor, ...]:
        products = [torch.addmm(bias, x, weight) for weight, bias in zip(layers[::2], layers[1::2])]
        return tuple(torch.softmax(product, -1) for product in products)

    layers = [tensor.to(dtype) for _ in range(4) for tensor in (torch.randn(64, 32) / 8, torch.randn(32))]
    assert library(projections, X[0].to(dtype), *layers) == {"baddbmm": 1}


def test_gradients_are_those_of_the_products_one_by_one() -> None:
    layers = [torch.randn(64, 64, requires_grad=True) for _ in range(3)]

    def sums(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.tanh(x @ weight / 8) for weight in weights)

    check(sums, X[0].clone().requires_grad_(), *layers, backward=True)


def test_any_number_of_rows_with_one_compile() -> None:
    def gates(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x @ a) * torch.tanh(x @ b) + torch.sigmoid(x @ c)

    compiled = torch.compile(gates, dynamic=True, fullgraph=True)
    weights = [torch.randn(32, 32) / 8 for _ in range(3)]
    torch._dynamo.utils.counters.clear()
    for rows in (5, 9, 31):
        check(gates, torch.randn(rows, 32), *weights, compiled=compiled)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_products_that_wait_for_each_other_are_not_batched() -> None:
    def chain(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        first = x @ a
        second = x @ torch.sin(first - b)
        return torch.sin(x @ torch.sin(second - c))

    assert library(chain, *[torch.randn(32, 32) / 8 for _ in range(4)]) == {"mm": 3}


def test_two_batches_never_wait_for_each_other() -> None:
    """Of x and y each has three products; the last of y's feeds one of x's, and one of x's feeds one of y's."""

    def crossed(x: torch.Tensor, y: torch.Tensor, *w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x0, x1 = x @ w[0], x @ w[1]
        y0, y1 = y @ w[2], y @ (w[3] + x0)
        return tuple(t.sin() for t in (x1, y0, x @ (w[4] + y1), y @ w[5]))

    assert library(crossed, *[torch.randn(32, 32) / 8 for _ in range(8)])["mm"] >= 2


@pytest.mark.parametrize(("count", "features"), [(2, 64), (3, 512)], ids=["too few", "large weights"])
def test_where_it_does_not_pay_nothing_is_changed(count: int, features: int) -> None:
    assert library(Projections(count, False, features), X) == {"mm": count}


def test_three_products_with_a_bias_would_save_two_calls_for_two_kernels() -> None:
    def layers(x: torch.Tensor, *layers: torch.Tensor) -> list[torch.Tensor]:
        products = [torch.addmm(bias, x, weight) for weight, bias in zip(layers[::2], layers[1::2])]
        return [torch.softmax(product, -1) for product in products]

    assert (
        library(layers, X[0], *[torch.randn(*shape) / 8 for _ in range(3) for shape in ((64, 32), (32,))])["addmm"] == 3
    )


def test_different_inputs_and_different_types_stay_apart() -> None:
    def mixed(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t.sin() for t in (x @ w, y @ w, x @ w.t(), (x + y) @ w))

    assert library(mixed, *[torch.randn(32, 32) for _ in range(3)]) == {"mm": 4}


def test_a_weight_that_is_changed_later_is_read_before() -> None:
    def step(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        results = [torch.sin(x @ weight) for weight in (a, b, c)]
        b.mul_(2)
        return [*results, x @ b]

    check(step, *[torch.randn(32, 32) for _ in range(4)])


def test_what_the_user_gets_has_memory_of_its_own() -> None:
    weights = [torch.randn(64, 64) for _ in range(3)]
    assert library(lambda x, a, b, c: (x @ a, (x @ b).t(), (x @ c)[1:]), X[0], *weights) == {"mm": 3}


def test_products_that_are_kernels_stay_apart() -> None:
    """A launch costs less than a copy of the weights."""
    with config.patch(templates="auto"):
        assert calls(Projections(3, bias=False, features=32), X) == {KERNEL: 3}

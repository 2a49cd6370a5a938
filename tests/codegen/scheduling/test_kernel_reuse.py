"""Loops like earlier ones get their kernel; loops that differ in anything that a kernel says do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest
import torch

import inductor_npu.config
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from models.zoo import MODELS, build
from tests.codegen.scheduling.written_anew import every_repetition_written_anew
from tests.compile.helpers import check

pytestmark = pytest.mark.usefixtures("every_graph_is_compiled")


def block(x: torch.Tensor, w: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Two kernels around a product, which nothing is fused across."""
    return torch.softmax(x @ w * scale, -1) + x


def layers(count: int) -> Callable[..., torch.Tensor]:
    def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = block(x, w)
        return x

    return network


def written(function: Callable[..., object], *inputs: torch.Tensor) -> int:
    """How many kernels were written to compile `function`, whose results are compared with eager's."""
    torch._dynamo.reset()
    original, count = NpuKernel.codegen_body, []

    def counting(self: NpuKernel) -> None:
        count.append(id(self))
        original(self)

    with patch.object(NpuKernel, "codegen_body", counting):
        check(function, *inputs)
    return len(set(count))


def square() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(48, 48), torch.randn(48, 48) / 7


def test_a_layer_like_the_last_is_not_written_again() -> None:
    assert written(layers(2), *square()) == written(layers(6), *square())


@pytest.fixture(autouse=True)
def _library_computes_products() -> Iterator[None]:
    with inductor_npu.config.patch(templates="none"):
        yield


def products(*functions: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    """Each function of a product of its own, so that each is a kernel."""

    def all_of_them(x: torch.Tensor, *ws: torch.Tensor) -> list[torch.Tensor]:
        return [function(x @ w) for function, w in zip(functions, ws, strict=True)]

    return all_of_them


DIFFERENT = {
    "constants": (lambda x: x + 1.5, lambda x: x + 2.5),
    "signs of zero": (lambda x: torch.copysign(x, torch.tensor(0.0)), lambda x: torch.copysign(x, torch.tensor(-0.0))),
    "zeros of constants": (lambda x: torch.where(x > 0, 0.0, x), lambda x: torch.where(x > 0, -0.0, x)),
    "types": (lambda x: x.to(torch.float16) * 2, lambda x: x.to(torch.bfloat16) * 2),
    "types of constants": (lambda x: (x > 0) + 1, lambda x: (x > 0) + 1.0),
    "operators": (torch.sin, torch.cos),
    "order of operands": (lambda x: x - x.exp(), lambda x: x.exp() - x),
    "axes of a sum": (lambda x: x.sum(0), lambda x: x.sum(1)),
    "kinds of reductions": (lambda x: x.amax(1), lambda x: x.amin(1)),
    "shapes": (lambda x: x[:40] * 2, lambda x: x[:, :40] * 2),
    "offsets": (lambda x: x[1:] * 2, lambda x: x[:-1] * 2),
    "conditions": (lambda x: torch.tril(x), lambda x: torch.triu(x)),
    "fillings": (lambda x: torch.nn.functional.pad(x, (1, 1), value=0.5), lambda x: torch.nn.functional.pad(x, (1, 1))),
    "lifetimes": (lambda x: x + 1, lambda x: [y := x + 1, y * 2]),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_kernels_that_differ_are_not_taken_for_one_another(case: str) -> None:
    x, w = square()
    one, other = DIFFERENT[case]
    alone = written(products(one), x, w) + written(products(other), x, w)
    assert written(products(one, other), x, w, w.t().contiguous()) == alone


def test_what_is_written_in_place_is_told_apart() -> None:
    def kept_and_given_up(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept, given_up = x @ w, x @ v
        return kept, kept.sin() @ w, given_up.sin() @ v

    with every_repetition_written_anew() as repetitions:
        check(kept_and_given_up, *square(), torch.randn(48, 48))
    assert repetitions.differences == []


@pytest.mark.slow
def test_mutated_inputs_and_sizes_as_arguments() -> None:
    def steps(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for state in (a, b):
            state.mul_(0.5).add_(x)
            x = torch.relu(x @ w) + state
        return x

    x, w = square()
    with every_repetition_written_anew() as repetitions:
        check(steps, x, w, torch.randn(48, 48), torch.randn(48, 48))
        check(steps, x, w, torch.randn(48, 48), torch.randn(48, 48), dynamic=True)
        check(layers(3), x, w, dynamic=True)
    assert repetitions.taken
    assert repetitions.differences == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_models_are_as_if_written_anew(name: str, device: str) -> None:
    model, inputs, call = build(name)
    model = model.to(device).train()
    torch._dynamo.reset()
    with every_repetition_written_anew() as repetitions:
        call(torch.compile(model), *(value.to(device) for value in inputs)).square().mean().backward()
    assert repetitions.taken
    assert repetitions.differences == []

"""Whatever is stored or computed anew, a program computes what it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_npu.lowering.graph_passes.materialisation import materialise
from tests.compile.helpers import assert_equal, check

SIZE = 8
Tensor = torch.Tensor

# Each takes two matrices and gives one; products, sums of rows and sums of columns end kernels.
OPERATORS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add,
    torch.sub,
    lambda a, b: torch.where(a > 0, a, b),
    lambda a, b: (a @ b).tanh(),
    lambda a, b: a - b.mean(-1, keepdim=True),
    lambda a, b: a * b.mean(0),
    lambda a, b: torch.cat([a[:, :3], b[:, 3:]], 1),
    lambda a, b: a.t().sin() + b[:1],
    lambda a, b: a + torch.cat([b[:, :1] - 1, b[:, 1:]], 1),
)
STEPS = st.lists(st.tuples(st.sampled_from(range(len(OPERATORS))), st.integers(0, 3), st.integers(0, 3)), min_size=4)


def program(steps: list[tuple[int, int, int]]) -> Callable[[Tensor, Tensor, Tensor], list[Tensor]]:
    """Applies operators, one after the other, to the results so many steps back; all of the last four are results."""

    def run(a: Tensor, b: Tensor, c: Tensor) -> list[Tensor]:
        values = [a, b, c, a - c]
        for which, first, second in steps:
            values.append(OPERATORS[which](values[-1 - first], values[-1 - second]))
        return values[-4:]

    return run


def matrices(device: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(SIZE, SIZE, dtype=torch.float64).to(device) for _ in range(3)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(STEPS)
def test_a_graph_that_is_materialised_computes_the_same(steps: list[tuple[int, int, int]]) -> None:
    with FakeTensorMode() as mode:
        module = make_fx(program(steps))(*matrices("npu"))
    with V.set_fake_mode(mode):
        materialise.apply(module.graph)
    module.graph.lint()
    module.recompile()
    assert_equal([value.cpu() for value in module(*matrices("npu"))], program(steps)(*matrices("cpu")))


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(STEPS)
def test_a_compiled_program_computes_what_eager_does(steps: list[tuple[int, int, int]]) -> None:
    torch._dynamo.reset()
    check(program(steps), *matrices("cpu"))


@pytest.mark.parametrize("image", [(2, 3, 32), (2, 3, 8, 8), (2, 3, 4, 4, 4)], ids=["1d", "2d", "3d"])
def test_values_that_are_stored_between_convolutions_of_any_rank(image: tuple[int, ...]) -> None:
    """Inductor prefers channels last on the way to a convolution; a sequence of tokens has no such order."""
    axes = len(image) - 2
    convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[axes - 1]

    def f(x: Tensor, patches: Tensor, across: Tensor, pointwise: Tensor) -> Tensor:
        tokens = convolve(x, patches, stride=4).flatten(2).transpose(1, 2)
        tokens = tokens + torch.nn.functional.gelu(torch.layer_norm(tokens, (16,))) @ across
        return tokens + torch.conv1d(torch.layer_norm(tokens, (16,)), pointwise)

    count = torch.Size([size // 4 for size in image[2:]]).numel()
    shapes = [image, (16, 3, *[4] * axes), (16, 16), (count, count, 1)]
    check(f, *map(torch.randn, shapes))

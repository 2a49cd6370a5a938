"""A residual sum that a norm and the next sum take: stored once, so that layers alike have kernels alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import inductor_npu
import inductor_npu.config as config
from inductor_npu.lowering.graph_passes.passes import PASSES
from tests.compile.helpers import assert_equal, check, to_npu

WITHOUT = ",".join(each.name for each in PASSES if each.optional and each.name != "materialisation")
WIDTH = 64
Norm = Callable[[torch.Tensor], torch.Tensor]


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """As Llama and T5 write it."""
    exact = x.float()
    return (exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (WIDTH,))


def network(layers: int, norm: Norm = rms_norm) -> Callable[..., torch.Tensor]:
    """Layers of two parts, each with a norm before it. Of a stack of matrices the library adds none to its products."""

    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for _ in range(layers):
            x = x + norm(x) @ weight
            x = x + (norm(x) @ weight).relu() @ weight
        return norm(x)

    return run


def operands(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(*shape, WIDTH).to(dtype), (torch.randn(WIDTH, WIDTH) / 16).to(dtype)


def bodies(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> list[str]:
    """The kernels of a call without their names; the results are compared with eager's."""
    torch._dynamo.reset()
    result, (module,) = run_and_get_code(torch.compile(function), *map(to_npu, inputs))
    assert_equal(result, function(*inputs))
    kernels = module.split("@triton.jit")[1:]
    return [kernel.split("):", 1)[1].split("'''", 1)[0] for kernel in kernels]


def bytes_and_kernels(function: Callable[..., torch.Tensor], passes: str = "all") -> tuple[int, set[str]]:
    """What the kernels of a call move, and their texts."""
    with config.patch(graph_passes=passes), inductor_npu.record_explanation() as recorded:
        kernels = bodies(function, *operands(4, 8))
    moved = recorded.explanation
    return moved.bytes_read + moved.bytes_written, set(kernels)


@pytest.mark.parametrize(("norm", "dynamic"), [(rms_norm, False), (layer_norm, True)])
@pytest.mark.parametrize("shape", [(4, 8), (1, 1), (32,)])
def test_values(shape: tuple[int, ...], norm: Norm, dynamic: bool) -> None:
    check(network(3, norm), *operands(*shape), dynamic=dynamic)


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "dynamic"), [(layer_norm, False), (rms_norm, True)])
@pytest.mark.parametrize("shape", [(3, 7), (0, 5)])
def test_values_of_odd_shapes(shape: tuple[int, ...], norm: Norm, dynamic: bool) -> None:
    check(network(3, norm), *operands(*shape), dynamic=dynamic)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_values_of_all_shapes_with_the_other_norm(dynamic: bool) -> None:
    """All in one graph, each in the combination with a norm and with dynamic sizes that is left out above."""
    norm, of_odd_shapes = (rms_norm, layer_norm) if dynamic else (layer_norm, rms_norm)
    norms = {(4, 8): norm, (1, 1): norm, (32,): norm, (3, 7): of_odd_shapes, (0, 5): of_odd_shapes}
    networks = [network(3, each) for each in norms.values()]
    check(
        lambda *parts: [run(*part) for run, part in zip(networks, parts, strict=True)],
        *(operands(*shape) for shape in norms),
        dynamic=dynamic,
    )


def test_values_of_half_types() -> None:
    check(network(2), *operands(2, 8, dtype=torch.bfloat16))


@pytest.mark.slow
@pytest.mark.parametrize("norm", [rms_norm, layer_norm])
def test_gradients(norm: Norm) -> None:
    x, weight = operands(2, 8)
    check(network(3, norm), x.requires_grad_(), weight.requires_grad_(), backward=True)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [rms_norm, layer_norm])
def test_a_further_layer_has_no_kernel_of_its_own(norm: Norm) -> None:
    _, three = bytes_and_kernels(network(3, norm))
    for layers in (4, 6):
        assert bytes_and_kernels(network(layers, norm))[1] == three


@pytest.mark.slow
def test_fewer_kernels_move_fewer_bytes() -> None:
    moved, kernels = bytes_and_kernels(network(5))
    moved_without, kernels_without = bytes_and_kernels(network(5), WITHOUT)
    assert len(kernels) < len(kernels_without)
    assert moved < moved_without


@pytest.mark.slow
def test_norms_after_the_sums_are_left_to_inductor() -> None:
    """As in BERT: what the next sum takes is what the norm has stored."""

    def after(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = layer_norm(x + x @ weight + 1)
        return x

    assert bytes_and_kernels(after) == bytes_and_kernels(after, WITHOUT)


def test_what_one_kernel_takes_is_left_to_inductor() -> None:
    """A softmax of a sum: its kernel keeps it on chip."""

    def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight + x @ weight.t() + x).softmax(-1) @ weight

    assert bytes_and_kernels(scores) == bytes_and_kernels(scores, WITHOUT)


def test_a_sum_that_leaves_the_graph_is_stored_once() -> None:
    def leaving(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x + x @ weight + x @ weight.t()
        return x, x + layer_norm(x) @ weight

    with config.patch(templates="none"):  # kernels of products store what they leave to the next
        assert sum(kernel.count("tl.store(") for kernel in bodies(leaving, *operands(4, 8))) == 3


def test_it_stops_before_the_first_write() -> None:
    """What comes after it may read other values in the same memory."""

    def written(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = x + x @ weight
        y = x + rms_norm(x) @ weight
        weight.mul_(2)
        return y + rms_norm(y) @ weight

    check(written, *operands(2, 8))


def test_a_model_with_parameters() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.linear(self.norm(x))

    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(5)))
    x = torch.randn(2, 5, WIDTH)
    expected = model(x)
    with torch.no_grad():
        assert_equal(torch.compile(model.to("npu"))(x.to("npu")), expected)

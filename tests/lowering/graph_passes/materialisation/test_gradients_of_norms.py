"""A gradient that a batch norm adds up and that goes on past a residual branch: stored once."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn as nn
from torch._inductor.utils import run_fw_bw_and_get_code

import inductor_npu
import inductor_npu.config as config
from inductor_npu.lowering.graph_passes.passes import PASSES
from tests.compile.helpers import assert_equal

WITHOUT = ",".join(each.name for each in PASSES if each.optional and each.name != "materialisation")


class Block(nn.Module):
    """Half a residual block, as ResNets have them."""

    def __init__(self, channels: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = norm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.norm(self.convolution(x)) + x).relu()


def blocks(count: int, **settings: Callable[[int], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(16, **settings) for _ in range(count)))


def image(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (2, 16, 8, 8)))


def backward_of(model: nn.Module, passes: str = "all") -> str:
    """The module that is generated for the gradients."""
    torch._dynamo.reset()
    x = image().to("npu").requires_grad_()
    compiled = torch.compile(model.to("npu"))
    with config.patch(graph_passes=passes):
        _, (_, backward) = run_fw_bw_and_get_code(lambda: compiled(x).square().mean())
    return backward


def bytes_of(model: nn.Module, passes: str) -> int:
    """What the kernels of a training step move."""
    torch._dynamo.reset()
    x = image().to("npu").requires_grad_()
    compiled = torch.compile(model.to("npu"))
    with config.patch(graph_passes=passes), inductor_npu.record_explanation() as recorded:
        compiled(x).square().mean().backward()
    return recorded.explanation.bytes_read + recorded.explanation.bytes_written


def check_gradients(model: nn.Module, x: torch.Tensor, dynamic: bool = False) -> None:
    """Compares the gradients of the input and of all parameters with eager's on the CPU."""
    torch._dynamo.reset()
    on_npu = copy.deepcopy(model).to("npu")
    inputs = [x.clone().requires_grad_(), x.to("npu").requires_grad_()]
    for network, each in zip((model, torch.compile(on_npu, fullgraph=True, dynamic=dynamic)), inputs, strict=True):
        network(each).square().mean().backward()
    assert_equal(inputs[1].grad, inputs[0].grad)
    for actual, expected in zip(on_npu.parameters(), model.parameters(), strict=True):
        assert_equal(actual.grad, expected.grad)


@pytest.mark.parametrize(("shape", "dynamic"), [((2, 16, 8, 8), False), ((3, 16, 5, 7), True)], ids=str)
def test_gradients(shape: tuple[int, ...], dynamic: bool) -> None:
    check_gradients(blocks(3), image(*shape), dynamic)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dynamic"), [((2, 16, 8, 8), True), ((3, 16, 5, 7), False)], ids=str)
def test_gradients_of_a_further_block(shape: tuple[int, ...], dynamic: bool) -> None:
    check_gradients(blocks(4), image(*shape), dynamic)


@pytest.mark.slow
def test_gradients_of_two_elements_a_channel() -> None:
    check_gradients(blocks(4).double(), image(1, 16, 1, 2).double())


def test_gradients_of_no_images() -> None:
    check_gradients(blocks(3).eval(), image(0, 16, 4, 4))


@pytest.mark.slow
def test_gradients_channels_last() -> None:
    model = blocks(3).to(memory_format=torch.channels_last)
    check_gradients(model, image().to(memory_format=torch.channels_last))


@pytest.mark.slow
def test_gradients_where_a_layout_is_forced() -> None:
    with torch._inductor.config.patch(force_layout_optimization=True):
        check_gradients(blocks(3), image())


@pytest.mark.slow
def test_fewer_bytes_move() -> None:
    assert bytes_of(blocks(4), "all") < bytes_of(blocks(4), WITHOUT)


@pytest.mark.slow
def test_what_is_alike_is_compiled_once() -> None:
    """From the third block on each further one takes kernels that are there."""
    texts = [
        {
            text.split("@triton.jit", 1)[1].split("):", 1)[1]
            for text in backward_of(blocks(count)).split("async_compile.triton(")[1:]
        }
        for count in (4, 5, 6)
    ]
    assert len(texts[0]) >= len(texts[1]) == len(texts[2])


@pytest.mark.slow
def test_norms_over_rows_move_no_more_bytes() -> None:
    """Their kernels keep the gradient on chip while they add it up; sums for weights take it in another kernel."""
    model = blocks(3, norm=lambda channels: nn.LayerNorm([8, 8]))
    assert bytes_of(model, "all") <= bytes_of(model, WITHOUT)


@pytest.mark.slow
def test_a_gradient_that_the_library_takes_is_stored_in_any_case() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    assert bytes_of(model, "all") == bytes_of(model, WITHOUT)


@pytest.mark.slow
def test_it_can_be_switched_off() -> None:
    assert "stored" in backward_of(blocks(3))
    assert "stored" not in backward_of(blocks(3), WITHOUT)

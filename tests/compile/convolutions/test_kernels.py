"""Which kernels a convolution becomes: what is fused, how layouts go through a network, and what calls the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import inductor_npu
import inductor_npu.config as config
from tests.compile.helpers import assert_equal, check, code_of, kernel_count, to_npu


def kernels(fn: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The names of the kernels that `fn` becomes, in inference."""
    with torch.no_grad():
        sources = code_of(fn, *(to_npu(tensor) for tensor in inputs))
    text = "\n".join(sources)
    return [line.split()[0] for line in text.splitlines() if line.startswith("triton_") and "async_compile" in line]


def convolving(*sizes: int, last: bool = True) -> torch.Tensor:
    tensor = torch.rand(sizes) + 0.25
    return tensor.to(memory_format=torch.channels_last) if last else tensor


def test_bias_and_activation_are_the_products() -> None:
    image, weight, bias = convolving(2, 64, 8, 8), convolving(32, 64, 1, 1), torch.rand(32)

    def fn(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.silu(F.conv2d(image, weight, bias))

    check(fn, image, weight, bias)
    assert len(kernels(fn, image, weight, bias)) == 1


def test_a_window_takes_copies_and_one_product() -> None:
    image, weight, bias = convolving(2, 64, 56, 56), convolving(64, 64, 3, 3), torch.rand(64)

    def fn(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.relu(F.conv2d(image, weight, bias, padding=1))

    names = kernels(fn, image, weight, bias)
    assert len(names) <= 3 and sum("_relu" in name for name in names) == 1


def test_a_batch_norm_in_inference_is_the_products() -> None:
    norm = nn.BatchNorm2d(32).eval()
    norm.running_mean.uniform_()
    norm.running_var.uniform_(0.5, 1.5)
    model = (
        nn.Sequential(nn.Conv2d(64, 32, 1, bias=False), norm, nn.ReLU()).eval().to(memory_format=torch.channels_last)
    )
    image = convolving(2, 64, 8, 8)
    with torch.no_grad():
        expected = model(image)
        compiled = model.to("npu")
        (source,) = code_of(compiled, to_npu(image))
        assert_equal(torch.compile(compiled)(to_npu(image)), expected)
    assert kernel_count([source]) == 1


@pytest.mark.slow
def test_a_network_turns_its_image_once() -> None:
    layers = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 1)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    image = convolving(2, 3, 32, 32, last=False)
    with torch.no_grad():
        expected = model(image)
        model.to("npu")
        sources = code_of(model, to_npu(image))
        assert_equal(torch.compile(model)(to_npu(image)), expected)
    # Products: three. The image is padded, unfolded; one more is padded; two weights are turned; the mean.
    assert kernel_count(sources) <= 9


def test_images_lie_as_they_do_where_nothing_needs_another_order() -> None:
    image, weight = convolving(2, 64, 8, 8, last=False), convolving(32, 64, 1, 1, last=False)
    assert len(kernels(F.conv2d, image, weight)) == 1


def test_neighbouring_channels_are_what_the_user_asked_for() -> None:
    image, weight = convolving(2, 16, 8, 8), convolving(32, 16, 3, 3)
    result = torch.compile(F.conv2d)(to_npu(image), to_npu(weight))
    assert result.stride() == F.conv2d(to_npu(image), to_npu(weight)).stride()


def test_what_calls_the_library_says_why() -> None:
    def of(dtype: torch.dtype, **options: int) -> str:
        torch._dynamo.reset()
        image, weight = torch.rand(1, 16, 9, 9, dtype=dtype).to("npu"), torch.rand(16, 16, 3, 3, dtype=dtype).to("npu")
        report = inductor_npu.explain(lambda image, weight: F.conv2d(image, weight, **options), image, weight)
        (call,) = report.library_calls
        return call.reason

    assert of(torch.float64) == "the cube cores do not multiply torch.float64"
    assert of(torch.float32, stride=2, dilation=2) == "a window with steps and gaps along one dimension"
    with config.patch(templates="auto"):
        assert of(torch.float32) == "the provider's library is faster with windows that overlap"
    with config.patch(templates="none"):
        assert of(torch.float32) == "INDUCTOR_NPU_TEMPLATES=none"


@pytest.mark.slow
def test_images_of_one_element_are_kernels_by_default() -> None:
    image, weight = convolving(2, 64, 8, 8), convolving(32, 64, 1, 1)
    with config.patch(templates="auto"):
        check(F.conv2d, image, weight)
        assert len(kernels(F.conv2d, image, weight)) == 1


def test_patches_are_kernels_by_default() -> None:
    """As those of a vision transformer: windows that neither overlap nor leave gaps."""

    def embed(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, stride=4).flatten(2).transpose(1, 2)

    image, weight = convolving(2, 3, 16, 20), convolving(32, 3, 4, 4)
    with config.patch(templates="auto"):
        check(embed, image, weight)
        report = inductor_npu.explain(embed, to_npu(image), to_npu(weight))
    assert not report.library_calls


def test_gradients_by_the_library_take_their_operands_as_they_are() -> None:
    """As those of a depthwise convolution of tokens, which lie channels last."""

    def fn(tokens: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        image, of_result = (x.transpose(1, 2).unflatten(2, (8, 6)) for x in (tokens, gradient))
        return torch.ops.aten.convolution_backward(
            of_result, image, weight, [16], [1, 1], [1, 1], [1, 1], False, [0, 0], 16, [True, True, False]
        )[:2]

    inputs = torch.rand(2, 48, 16), torch.rand(16, 1, 3, 3), torch.rand(2, 48, 16)
    with config.patch(templates="auto"):
        check(fn, *inputs)
        assert kernels(fn, *inputs) == []

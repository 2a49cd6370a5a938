"""Compiled code takes results of convolutions to lie in memory as the operators of the library lay them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_npu import providers
from inductor_npu.device import convolution_layouts

LAST = torch.channels_last


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The devices that PyTorch is asked about. Its answer is that of a build with cuDNN, as no CPU build gives it:
    channels last if an operand is.
    """
    devices: list[str] = []
    FakeTensorMode.cache_clear()

    def determine(image: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        devices.append(image.device.type)
        is_last = any(tensor.is_contiguous(memory_format=LAST) for tensor in (image, weight))
        return LAST if is_last else torch.contiguous_format

    monkeypatch.setattr(torch._C, "_conv_determine_backend_memory_format", determine)
    monkeypatch.setattr(fake_impls, "op_implementations_checks", list(fake_impls.op_implementations_checks))
    known = SimpleNamespace(
        conv=fake_impls.conv,
        op_implementations_dict=fake_impls.op_implementations_dict,
        op_implementations_checks=fake_impls.op_implementations_checks,
    )
    convolution_layouts.register(known, "cuda")
    monkeypatch.setattr("torch._subclasses.fake_tensor.op_implementations_checks", known.op_implementations_checks)
    yield devices
    FakeTensorMode.cache_clear()  # what was answered here holds nowhere else


def convolved(device: str, layout: torch.memory_format, function: Callable[..., Any] = F.conv2d) -> Any:
    with FakeTensorMode():
        image = torch.empty(2, 8, 6, 6, device=device).to(memory_format=layout)
        return function(image, torch.empty(4, 8, 3, 3, device=device))


@pytest.mark.parametrize("layout", [LAST, torch.contiguous_format])
def test_results_lie_as_cudas_do_and_are_on_npu(asked: list[str], layout: torch.memory_format) -> None:
    result = convolved("npu", layout)
    assert asked == ["cuda"]
    assert result.device.type == "npu" and result.shape == (2, 4, 4, 4) and result.is_contiguous(memory_format=layout)


def test_gradients(asked: list[str]) -> None:
    def gradients(image: torch.Tensor, weight: torch.Tensor) -> Any:
        grad = torch.empty(2, 4, 4, 4, device=image.device)
        arguments = (grad, image, weight, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False])
        return torch.ops.aten.convolution_backward(*arguments)

    of_image, of_weight, of_bias = convolved("npu", LAST, gradients)
    assert asked == ["cuda"] and of_bias is None
    assert all(tensor.device.type == "npu" for tensor in (of_image, of_weight))
    assert of_image.is_contiguous(memory_format=LAST) and of_weight.is_contiguous(memory_format=LAST)


def test_other_devices_are_asked_about_as_they_are(asked: list[str]) -> None:
    assert convolved("cpu", torch.contiguous_format).device.type == "cpu" and asked == ["cpu"]


@pytest.mark.parametrize("layout", [LAST, torch.contiguous_format])
@pytest.mark.parametrize(("groups", "size"), [(1, 3), (8, 3), (1, 1)])
def test_the_embedded_npu_lays_results_out_as_compiled_code_is_told(
    layout: torch.memory_format, groups: int, size: int
) -> None:
    def strides(image: torch.Tensor, weight: torch.Tensor) -> list[tuple[int, ...]]:
        result = F.conv2d(image, weight, groups=groups)
        arguments = (torch.ones_like(result), image, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], groups)
        of_image, of_weight, _ = torch.ops.aten.convolution_backward(*arguments, [True, True, False])
        # Where a dimension has one element, its stride says nothing.
        pairs = (zip(each.size(), each.stride(), strict=True) for each in (result, of_image, of_weight))
        return [tuple(stride for length, stride in pair if length > 1) for pair in pairs]

    def operands(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.ones(2, 8, 6, 6, device=device).to(memory_format=layout)
        return image, torch.ones(8, 8 // groups, size, size, device=device)

    with FakeTensorMode():
        told = strides(*operands("npu"))
    assert told == strides(*operands("npu")) == strides(*operands("cpu"))


def test_layouts_of_whole_graphs_are_inductors_choice_where_the_library_is_a_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental.proxy_tensor import make_fx

    def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(image, weight, None, [1], [1], [1], False, [0], 1)

    operands = torch.randn(8, 64, 32, 32, device="npu"), torch.randn(256, 64, 3, 3, device="npu")
    graph = make_fx(convolve, tracing_mode="fake")(*operands)
    assert not GraphLowering.decide_layout_opt(graph, is_inference=True)
    monkeypatch.setattr(providers, "current_provider", lambda: providers.CUDA)
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "H100")
    assert GraphLowering.decide_layout_opt(graph, is_inference=True)

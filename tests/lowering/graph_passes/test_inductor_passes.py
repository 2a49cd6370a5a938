"""What Inductor's own passes do for `npu`: each row of the table in docs/graph-passes.md is a test here."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import inductor_npu.config as config
from tests.lowering.graph_passes.calls import KERNEL, calls
from tests.torch_features import needs_torch


class ConvolutionAndNorm(nn.Module):
    """A convolution, its batch norm with statistics that are not trivial, and maybe an activation."""

    def __init__(self, bias: bool = False, activation: bool = False) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(8, 16, 3, padding=1, bias=bias)
        self.norm = nn.BatchNorm2d(16)
        self.activation = nn.ReLU() if activation else nn.Identity()
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.norm(self.convolution(x)))


class Projections(nn.Module):
    """Query, key and value."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(64, 64, bias=bias) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.query(x), self.key(x), self.value(x)


IMAGE = torch.randn(2, 8, 12, 12)


@pytest.mark.parametrize("activation", [False, True])
def test_freezing_folds_batch_norm_into_the_convolution(activation: bool) -> None:
    """What is left of a norm is the bias, added in one kernel with the activation."""
    model = ConvolutionAndNorm(activation=activation)
    before = calls(model, IMAGE)
    torch._dynamo.utils.counters.clear()
    after = calls(model, IMAGE, freezing=True)
    assert torch._dynamo.utils.counters["inductor"]["binary_folding_conv"] > 0
    assert before == after == {"convolution": 1, KERNEL: 1}


def test_convolutions_take_their_operands_as_they_lie() -> None:
    """Unless it is asked for in so many words: then the image and the weight are turned first, each by a kernel."""
    model = ConvolutionAndNorm()
    assert calls(model, IMAGE) == {"convolution": 1, KERNEL: 1}
    assert calls(model, IMAGE, force_layout_optimization=True) == {"convolution": 1, KERNEL: 3}


def test_freezing_leaves_the_model_as_it_was() -> None:
    model = ConvolutionAndNorm()
    before = copy.deepcopy(model.state_dict())
    calls(model, IMAGE, freezing=True)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_freezing_computes_constants_once() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(32, 32))
            self.scale = nn.Parameter(torch.randn(32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.weight * self.scale).softmax(-1)

    x = torch.randn(8, 32)
    assert calls(Scaled(), x) == {KERNEL: 2}
    assert calls(Scaled(), x, freezing=True) == {KERNEL: 1}


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
def test_freezing_makes_parallel_projections_one_product(bias: bool) -> None:
    assert calls(Projections(bias), torch.randn(2, 16, 64), freezing=True) == {KERNEL: 1}


A, B, C = torch.randn(32, 48), torch.randn(48, 64), torch.randn(32, 64)


def test_product_and_sum_are_one_kernel_or_one_call() -> None:
    for function, c in ((lambda a, b, c: a @ b + c, C), (lambda a, b, c: c + a @ b, C[0])):
        assert calls(function, A, B, c) == {KERNEL: 1}
        with config.patch(templates="none"):
            assert calls(function, A, B, c) == {"addmm": 1}


def test_sums_of_products_add_up_in_their_kernels_or_in_the_library() -> None:
    square = [torch.randn(32, 32) for _ in range(3)]
    assert calls(lambda a, b, c: a @ b + b @ c + c @ a, *square) == {KERNEL: 3}
    with config.patch(templates="none"):
        assert calls(lambda a, b, c: a @ b + b @ c + c @ a, *square) == {"mm": 1, "addmm": 2}


@pytest.mark.parametrize(
    ("activation", "inputs"),
    [(F.relu, (A, B.t().contiguous(), C[0])), (F.gelu, (A, B.t().contiguous(), C[0]))],
    ids=["relu", "gelu"],
)
def test_bias_and_activation_of_a_linear_layer_are_one_kernel(activation: object, inputs: tuple) -> None:
    assert calls(lambda x, w, b: activation(F.linear(x, w, b)), *inputs) == {KERNEL: 1}


def test_bias_and_activation_of_a_convolution_are_one_kernel() -> None:
    def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.relu(F.conv2d(x, w, b))

    inputs = IMAGE, torch.randn(16, 8, 3, 3), torch.randn(16)
    assert calls(layer, *inputs) == {"convolution": 1, KERNEL: 1}


@needs_torch("2.13", "leaves it a batch")
def test_a_batch_of_one_product_is_a_product() -> None:
    with config.patch(templates="none"):
        assert calls(torch.bmm, A[None], B[None]) == {"mm": 1}


X = torch.randn(48, 48)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone().contiguous() @ x,
        lambda x: x.to(torch.float32).type_as(x) @ x,
        lambda x: x.double().float() @ x,
        lambda x: x.view(24, 96).view(48, 48).expand(48, 48) @ x,
        lambda x: x.t().t() @ torch.cat([x], 0)[:],
        lambda x: (x + torch.zeros_like(x)) @ (x * torch.ones_like(x)),
    ],
    ids=["clone", "cast to its own type", "cast there and back", "views", "permutations", "zeros and ones"],
)
def test_copies_and_casts_that_change_nothing_are_gone(function: object) -> None:
    assert calls(function, X) == {KERNEL: 1}


@needs_torch("2.13", "removes it, whatever emulate_precision_casts says")
def test_a_cast_that_rounds_stays() -> None:
    exact = {"emulate_precision_casts": True}
    assert calls(lambda x: x.bfloat16().float() @ x, X, **exact) == {KERNEL: 2}


def test_what_nobody_uses_is_not_computed() -> None:
    assert calls(lambda x: (x @ x, x.exp())[1], X) == {KERNEL: 1}


def test_tensors_of_one_value_are_folded_into_their_users() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        scale = torch.full((48, 48), 2.0, device=x.device).sqrt() * 3
        return x * scale

    assert calls(scaled, X) == {KERNEL: 1}


def test_attention_by_hand_is_one_kernel() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v

    heads = [torch.randn(2, 4, 16, 8) for _ in range(3)]
    assert calls(attention, *heads) == {KERNEL: 1}

"""What the tests of convolutions share: how one is described, and how it is held against eager in float64."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

import torch
import torch.nn.functional as F

from inductor_npu import providers
from tests.compile.helpers import to_npu

# Of the largest element: sums of up to some thousand products of numbers around 1 in float32, or halves rounded once.
_ERROR = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
if providers.current_provider() is providers.CUDA:
    _ERROR[torch.float32] = 5e-6  # cuDNN's gradients of weights are 3.7e-6 off in eager, too


@dataclass(frozen=True)
class Case:
    """A convolution of `channels` to `results` channels, of `batch` images `side` long along each of `dimensions`."""

    channels: int
    results: int
    side: int
    taps: int = 3
    step: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    batch: int = 2
    dimensions: int = 2
    transposed: bool = False
    more: int = 0
    channels_last: bool = False
    bias: bool = True
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        """What is not as in most."""
        unlike = (f for f in fields(self) if f.default is MISSING or getattr(self, f.name) != f.default)
        return " ".join(f"{f.name} {getattr(self, f.name)}" for f in unlike)

    def tensors(self) -> list[torch.Tensor]:
        """The image, the weight and, perhaps, the bias."""
        torch.manual_seed(0)
        pair = (self.channels, self.results) if self.transposed else (self.results, self.channels)
        image = torch.randn(self.batch, self.channels, *[self.side] * self.dimensions, dtype=self.dtype)
        weight = torch.randn(pair[0], pair[1] // self.groups, *[self.taps] * self.dimensions, dtype=self.dtype)
        if self.channels_last:
            image, weight = (tensor.to(memory_format=torch.channels_last) for tensor in (image, weight))
        return [image, weight, *([torch.randn(self.results, dtype=self.dtype)] if self.bias else [])]

    def __call__(self, image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        name = f"conv_transpose{self.dimensions}d" if self.transposed else f"conv{self.dimensions}d"
        convolve = getattr(F, name)
        if self.transposed:
            arguments = (self.step, self.padding, self.more, self.groups, self.dilation)
            return convolve(image, weight, bias, *arguments)
        return convolve(image, weight, bias, self.step, self.padding, self.dilation, self.groups)


def check(case: Case, backward: bool = True) -> None:
    """`case` compiled for npu agrees with eager in float64: results, and the gradients of all operands."""
    operands = case.tensors()
    expected = [operand.double().requires_grad_(backward) for operand in operands]
    actual = [to_npu(operand).requires_grad_(backward) for operand in operands]
    wanted, got = case(*expected), torch.compile(case, fullgraph=True, dynamic=False)(*actual)
    close(got, wanted, case.dtype)
    if backward:
        gradient = torch.randn(wanted.shape).to(case.dtype)
        wanted.backward(gradient.double())
        got.backward(gradient.to("npu"))
        for leaf, reference in zip(actual, expected, strict=True):
            close(leaf.grad, reference.grad, case.dtype)


def close(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    """`got` is within a rounding of `dtype` of `wanted`, by its largest element."""
    assert got.shape == wanted.shape and got.dtype == dtype
    error = (got.detach().cpu().double() - wanted.detach()).abs().max()
    assert error <= _ERROR[dtype] * wanted.detach().abs().max().clamp(min=1), f"off by {error}"

"""Programs that convolve: every geometry and layout, what follows a convolution, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus.programs.program import Program, case, differentiate, family
from corpus.programs.tensors import Input, floats

_HALVES = {"float32": torch.float32, "float16": torch.float16}
_ALL = {**_HALVES, "bfloat16": torch.bfloat16}


def _channels_last(make: Input) -> Input:
    return lambda: make().to(memory_format=torch.channels_last)


def _convolution(
    name: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    *,
    after: Callable[[torch.Tensor], torch.Tensor] = lambda result: result,
    last: bool = False,
    backward: bool = False,
    transposed: bool = False,
    **options: Any,
) -> Program:
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{len(image) - 2}d")
    inputs = [floats(*image, dtype=dtype), floats(*weight, dtype=dtype)]
    if last:
        inputs = [_channels_last(make) for make in inputs]
    return case(name, lambda x, w: after(function(x, w, **options)), *inputs, backward=backward)


def _windows() -> Iterator[Program]:
    for name, dtype in _ALL.items():
        yield _convolution(f"3 x 3 {name}", (2, 64, 28, 28), (64, 64, 3, 3), dtype, last=True, padding=1)
        yield _convolution(f"1 x 1 {name}", (2, 64, 14, 14), (128, 64, 1, 1), dtype, last=True)
        yield _convolution(f"stem {name}", (2, 3, 64, 64), (32, 3, 7, 7), dtype, stride=2, padding=3)
    for name, dtype in _HALVES.items():
        yield _convolution(f"3 x 3 rows first {name}", (2, 32, 28, 28), (64, 32, 3, 3), dtype, padding=1)
        yield _convolution(f"1 x 1 rows first {name}", (2, 64, 14, 14), (128, 64, 1, 1), dtype)
        yield _convolution(f"steps {name}", (2, 64, 28, 28), (128, 64, 3, 3), dtype, last=True, stride=2, padding=1)
        yield _convolution(f"1 x 1 steps {name}", (2, 64, 28, 28), (128, 64, 1, 1), dtype, last=True, stride=2)
        yield _convolution(f"gaps {name}", (2, 32, 28, 28), (32, 32, 3, 3), dtype, last=True, padding=2, dilation=2)
        yield _convolution(f"inside {name}", (2, 32, 18, 18), (48, 32, 3, 3), dtype, last=True)
        yield _convolution(f"small images {name}", (4, 256, 7, 7), (128, 256, 3, 3), dtype, last=True, padding=1)
        yield _convolution(f"many images {name}", (64, 32, 8, 8), (32, 32, 3, 3), dtype, last=True, padding=1)
        yield _convolution(f"patches {name}", (2, 3, 64, 64), (96, 3, 8, 8), dtype, stride=8)
        yield _convolution(f"groups {name}", (2, 64, 14, 14), (64, 16, 3, 3), dtype, last=True, padding=1, groups=4)
        yield _convolution(f"depthwise {name}", (2, 64, 14, 14), (64, 1, 3, 3), dtype, last=True, padding=1, groups=64)
        yield _convolution(f"one result {name}", (2, 32, 14, 14), (1, 32, 1, 1), dtype, last=True)
        yield _convolution(f"sequence {name}", (2, 32, 100), (64, 32, 5), dtype, padding=2)
        yield _convolution(f"volume {name}", (1, 16, 8, 12, 12), (32, 16, 3, 3, 3), dtype, padding=1)
        yield _convolution(f"large window {name}", (1, 32, 20, 20), (32, 32, 5, 5), dtype, last=True, padding=2)


def _transposed() -> Iterator[Program]:
    for name, dtype in _HALVES.items():
        for taps, padding in ((2, 0), (4, 1), (3, 1)):
            yield _convolution(
                f"transposed {taps} x {taps} {name}",
                (2, 64, 14, 14),
                (64, 32, taps, taps),
                dtype,
                last=True,
                transposed=True,
                stride=2,
                padding=padding,
            )
        yield _convolution(
            f"transposed sequence {name}", (2, 32, 40), (32, 16, 4), dtype, transposed=True, stride=2, padding=1
        )


def _epilogues() -> Iterator[Program]:
    after: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "relu": F.relu,
        "silu": F.silu,
        "gelu": F.gelu,
        "scale": lambda y: y * 0.5 + 1,
        "mean": lambda y: y.mean((2, 3)),
        "pool": lambda y: F.max_pool2d(y.relu(), 2),
    }
    for what, function in after.items():
        for name, dtype in _HALVES.items():
            yield _convolution(
                f"3 x 3, {what} {name}", (2, 32, 16, 16), (64, 32, 3, 3), dtype, after=function, last=True, padding=1
            )


def _gradients() -> Iterator[Program]:
    for name, dtype in _HALVES.items():
        options: dict[str, Any] = {"dtype": dtype, "backward": True}
        yield _convolution(f"gradients 3 x 3 {name}", (2, 32, 14, 14), (64, 32, 3, 3), last=True, padding=1, **options)
        yield _convolution(
            f"gradients steps {name}", (2, 32, 14, 14), (64, 32, 3, 3), last=True, stride=2, padding=1, **options
        )
        yield _convolution(f"gradients 1 x 1 {name}", (2, 64, 14, 14), (32, 64, 1, 1), last=True, **options)
        yield _convolution(f"gradients stem {name}", (2, 3, 32, 32), (32, 3, 7, 7), stride=2, padding=3, **options)
        yield _convolution(
            f"gradients depthwise {name}", (2, 64, 14, 14), (64, 1, 3, 3), last=True, padding=1, groups=64, **options
        )
        yield _convolution(
            f"gradients transposed {name}",
            (2, 32, 7, 7),
            (32, 64, 4, 4),
            last=True,
            transposed=True,
            stride=2,
            padding=1,
            **options,
        )
        yield _convolution(f"gradients sequence {name}", (2, 32, 50), (48, 32, 3), padding=1, **options)


class _Block(nn.Module):
    """A residual block of a ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + x)


def _network(training: bool) -> Program:
    def run() -> None:
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 32, 3, 2, 1), _Block(32), nn.Conv2d(32, 64, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10)).train(training).to("npu")
        with torch.set_grad_enabled(training):
            result = torch.compile(model)(torch.randn(2, 3, 32, 32).to("npu"))
        if training:
            differentiate(result)

    return Program("network in training" if training else "network in inference", run)


def _networks() -> Iterator[Program]:
    yield _network(False)
    yield _network(True)


PROGRAMS = family("convolution", [*_windows(), *_transposed(), *_epilogues(), *_gradients(), *_networks()])

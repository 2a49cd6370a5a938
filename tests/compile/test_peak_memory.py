"""Peak memory of compiled programs: at most 1.05 of the lesser of eager's on `npu` and stock Inductor's on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from models.zoo import SMALL, build
from tests.peak_memory import peak_on_cpu, peak_on_npu

pytestmark = pytest.mark.slow

Program = tuple[Callable[..., torch.Tensor], list[torch.Tensor]]


def _trained(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [(torch.randn(shape) / 16).requires_grad_() for shape in shapes]


def cross_entropy_in_chunks() -> Program:
    def fn(h: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return sum(F.cross_entropy(c @ w.t(), t, reduction="sum") for c, t in zip(h.chunk(4), y.chunk(4)))

    return fn, [torch.randn(512, 32), torch.randn(2048, 32), torch.randint(0, 2048, (512,))]


def cross_entropy_in_checkpointed_chunks() -> Program:
    chunks, inputs = cross_entropy_in_chunks()

    def fn(h: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = zip(h.chunk(4), y.chunk(4))
        return sum(checkpoint(chunks, c, w, t, use_reentrant=False) for c, t in parts)

    return fn, [*_trained((512, 32), (2048, 32)), inputs[-1]]


def sums_of_products() -> Program:
    def fn(c: torch.Tensor, *rows: torch.Tensor) -> torch.Tensor:
        return sum((x @ c).sum(-1) for x in rows)

    return fn, [torch.randn(128, 1024), *(torch.randn(256, 128) for _ in range(4))]


def _gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + (F.silu(x @ gate) * (x @ up)) @ down


def gated_layers() -> Program:
    def fn(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for i in range(0, len(weights), 3):
            x = _gated(x, *weights[i : i + 3])
        return x

    return fn, _trained((256, 128), *3 * [(128, 512), (128, 512), (512, 128)])


def checkpointed_layers() -> Program:
    def fn(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for i in range(0, len(weights), 3):
            x = checkpoint(_gated, x, *weights[i : i + 3], use_reentrant=False)
        return x

    return fn, gated_layers()[1]


def convolution_of_channels_last() -> Program:
    def fn(x: torch.Tensor, up: torch.Tensor, taps: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        images = (x @ up).transpose(1, 2).unflatten(2, (16, 16))
        mixed = F.conv2d(images, taps, padding=1, groups=len(taps))
        return F.gelu(mixed.flatten(2).transpose(1, 2)) @ down

    return fn, [torch.randn(2, 256, 16), torch.randn(16, 128), torch.randn(128, 1, 3, 3), torch.randn(128, 16)]


def polynomial_of_a_graph() -> Program:
    """As a Chebyshev convolution: the product of each power waits for the sum at the end."""

    def fn(x: torch.Tensor, to: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        powers = [x, torch.zeros_like(x).index_add(0, to, x)]
        out = powers[0] @ weights[0] + powers[1] @ weights[1]
        for weight in weights[2:]:
            powers.append(2 * torch.zeros_like(x).index_add(0, to, powers[-1]) - powers[-2])
            out = out + powers[-1] @ weight
        return out

    return fn, [torch.randn(512, 64), torch.randint(0, 512, (512,)), *(torch.randn(64, 128) for _ in range(3))]


PROGRAMS: dict[str, Callable[[], Program]] = {
    function.__name__: function
    for function in (
        cross_entropy_in_chunks,
        cross_entropy_in_checkpointed_chunks,
        sums_of_products,
        gated_layers,
        checkpointed_layers,
        convolution_of_channels_last,
        polynomial_of_a_graph,
    )
}
MODELS = ("llama", "resnet")


def _module_of(name: str) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    model, inputs, call = build(name, replace(SMALL, layers=2, width=128))

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return call(self.model, *args)

    return Called().train(), list(inputs)


def _call_on(device: str, name: str, compiled: bool) -> Callable[[], None]:
    """One call, with gradients where something wants them, which are dropped."""
    torch.manual_seed(0)
    fn, inputs = _module_of(name) if name in MODELS else PROGRAMS[name]()
    inputs = [each.detach().to(device).requires_grad_(each.requires_grad) for each in inputs]
    trained = [each for each in inputs if each.requires_grad]
    if isinstance(fn, torch.nn.Module):
        fn = fn.to(device)
        trained.extend(fn.parameters())
    torch._dynamo.reset()
    called = torch.compile(fn) if compiled else fn

    def call() -> None:
        result = called(*inputs)
        if trained:
            result.float().mean().backward()
        for each in trained:
            each.grad = None

    return call


@pytest.mark.parametrize("name", [*PROGRAMS, *MODELS])
def test_a_compiled_program_needs_no_more_memory(name: str) -> None:
    eager = peak_on_npu(_call_on("npu", name, compiled=False))
    stock = peak_on_cpu(_call_on("cpu", name, compiled=True))
    compiled = peak_on_npu(_call_on("npu", name, compiled=True))
    assert compiled <= 1.05 * min(eager, stock), f"eager {eager}, stock {stock}"

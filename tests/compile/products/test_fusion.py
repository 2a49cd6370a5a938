"""What is computed from a product is part of its kernel; what comes before it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.codegen.vectors import divisions
from tests.compile.helpers import check, code_of, kernel_count, to_npu
from tests.compile.products.test_values import calls_of_the_library, random


def check_kernels(kernels: int, fn: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    check(fn, *inputs)
    sources = code_of(fn, *(to_npu(tensor) for tensor in inputs))
    assert kernel_count(sources) == kernels
    assert calls_of_the_library(sources) == 0
    return sources


X, W, B = random(66, 100), random(70, 100), random(70)


def _both(y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return y, y.relu()


AFTER = {
    "bias": lambda x, w, b, y: F.linear(x, w, b),
    "relu": lambda x, w, b, y: F.linear(x, w, b).relu(),
    "gelu": lambda x, w, b, y: F.gelu(F.linear(x, w, b)),
    "tanh gelu": lambda x, w, b, y: F.gelu(F.linear(x, w, b), approximate="tanh"),
    "silu": lambda x, w, b, y: F.silu(F.linear(x, w, b)),
    "residual": lambda x, w, b, y: y + F.linear(x, w, b),
    "scale": lambda x, w, b, y: (x @ w.t()) * 0.125,
    "gate": lambda x, w, b, y: F.silu(y) * F.linear(x, w, b),
    "cast": lambda x, w, b, y: F.linear(x, w, b).half(),
    "two results": lambda x, w, b, y: _both(F.linear(x, w, b)),
    "where": lambda x, w, b, y: torch.where(y > 0.75, F.linear(x, w, b), -1.0),
    "column scale": lambda x, w, b, y: (x @ w.t()) * b + y[:, :1],
}


@pytest.mark.parametrize("name", AFTER)
def test_what_follows_is_in_the_kernel(name: str) -> None:
    (module,) = check_kernels(1, AFTER[name], X, W, B, random(66, 70))
    (kernel,) = re.findall(r"async_compile\.triton\('\w+', \'\'\'(.*?)\'\'\'", module, re.DOTALL)
    assert divisions(kernel) == []


def excite(image: torch.Tensor, squeezed: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weights = F.conv2d(squeezed, w, b)
    return weights, F.hardswish(image) * F.hardsigmoid(weights)


def test_a_loop_over_all_that_is_multiplied_is_apart() -> None:
    """Squeeze and excitation of images with as many pixels as the product has steps: Inductor would take the scaling of
    all pixels for a loop over what the product sums.
    """
    check(excite, random(2, 64, 4, 4), random(2, 16, 1, 1), random(64, 16, 1, 1), random(64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_rounded_once(dtype: torch.dtype) -> None:
    """Closer to the exact result than eager, which rounds after each operator."""
    x, w, b, y = (tensor.to(dtype) for tensor in (X, W, B, random(66, 70)))

    def fn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y + F.linear(x, w, b)

    exact = fn(*(tensor.double() for tensor in (x, w, b, y)))
    result = torch.compile(fn)(*(to_npu(tensor) for tensor in (x, w, b, y))).cpu()
    worst = (result.double() - exact).abs().max()
    assert worst <= (fn(x, w, b, y).double() - exact).abs().max()


def test_what_comes_before_is_computed_once() -> None:
    sources = check_kernels(2, lambda x, w: F.gelu(x) @ w.t(), X, W)
    assert sum(source.count("tl.erf(") for source in sources) == 1


def test_a_row_reduction_of_the_result_is_a_kernel_of_its_own() -> None:
    check_kernels(2, lambda x, w: torch.softmax(x @ w.t(), -1), X, W)


def test_a_number_of_python_that_changes() -> None:
    """From its second value on it is an argument, a tensor of the CPU with one element."""

    def fn(x: torch.Tensor, w: torch.Tensor, scale: float) -> tuple[torch.Tensor, ...]:
        y = F.silu(x @ w) * scale
        return (y * 2).softmax(-1).sum(0), y.cumsum(0).amax(1)

    compiled, x, w = torch.compile(fn), random(6, 6), random(6, 7)
    for scale in (1.5, 1.625):
        results = [result.cpu() for result in compiled(to_npu(x), to_npu(w), scale)]
        torch.testing.assert_close(results, list(fn(x, w, scale)), rtol=1e-4, atol=1e-4)


def test_products_of_one_tensor_share_its_loads() -> None:
    """A gate and what it gates: two accumulators, and no intermediate result."""
    (module,) = check_kernels(1, lambda x, w, v: F.silu(x @ w.t()) * (x @ v.t()), X, W, random(70, 100))
    assert module.count("tl.dot(") == 2 and module.count("tl.load(") == 3


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "right"])
def test_products_of_one_operand_have_the_others_in_l1(is_left: bool) -> None:
    def fn(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ a.t(), x @ b.t()) if is_left else (a @ x.t(), b @ x.t())

    (source,) = code_of(fn, *(random(128, 64).to("npu") for _ in range(3)))
    blocks = {axis: int(block) for axis, block in re.findall(r"(\w+) (\d+) of \d+", source.split("# tile [")[1])}
    once, shared = ("x", "y") if is_left else ("y", "x")
    kib = (2 * blocks[once] + blocks[shared]) * blocks["r0"] * 4 // 1024
    assert source.count("tl.dot(") == 2 and f"twice {kib} of 512 KiB of L1" in source


def test_a_chain_of_products_is_a_kernel_each() -> None:
    check_kernels(2, lambda x, w, v: (x @ w.t()).relu() @ v, X, W, random(70, 30))


def test_dropout_is_in_the_kernel_and_drawn_again_backward() -> None:
    x, w = X.clone().to("npu").requires_grad_(), W.to("npu")

    @torch.compile
    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x @ w.t(), 0.5)

    y = fn(x)
    y.sum().backward()
    kept = (y != 0).float() * 2
    torch.testing.assert_close(x.grad.cpu(), (kept @ w).cpu())
    assert 0.4 < (y != 0).float().mean() < 0.6


def test_indices_are_narrow_where_tensors_are_small() -> None:
    """Although there are more products of elements than an int32 can count."""
    (module,) = code_of(torch.mm, *(torch.empty(2048, 2048, device="npu") for _ in range(2)))
    assert "tl.dot(" in module and "tl.int64" not in module


def test_the_header_says_what_is_on_chip() -> None:
    (source,) = code_of(lambda x, w: F.relu(x @ w), random(256, 256).to("npu"), random(256, 512).to("npu"))
    assert re.search(r"# tile \[y, r0, x\]: y \d+ of 256; r0 \d+ of 256; x \d+ of 512", source)
    assert re.search(
        r"# \d+ of 128 KiB of L0C, twice \d+ of 512 KiB of L1, about [\d.]+ of 192 KiB of Unified Buffer", source
    )
    assert re.search(r"# \d+ tiles, on \d+ of 20 programs", source)

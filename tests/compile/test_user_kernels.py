"""Triton kernels that the user wrote, called from compiled code."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.errors import NpuError
from tests.compile.helpers import code_of


@triton.jit
def _scale(source, target, n, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(target + index, tl.load(source + index, mask=inside) * factor, mask=inside)


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def _square(source, target, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < n)
    tl.store(target + index, value * value, mask=index < n)


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), factor, BLOCK=512)
    return y


def test_user_kernel_between_generated_ones() -> None:
    x = torch.randn(3000)
    compiled = torch.compile(lambda x: _scaled(torch.relu(x), 3.0) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x.to("npu")).cpu(), torch.relu(x) * 3 + 1)


def test_user_kernel_with_dynamic_shapes() -> None:
    compiled = torch.compile(lambda x: _scaled(x, 2.0) - x, fullgraph=True, dynamic=True)
    for length in (10, 1000, 5001):
        x = torch.randn(length)
        torch.testing.assert_close(compiled(x.to("npu")).cpu(), x)


def test_autotuned_user_kernel() -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _square[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y * 2

    x = torch.randn(5000)
    torch.testing.assert_close(torch.compile(squared, fullgraph=True)(x.to("npu")).cpu(), x * x * 2)


def test_user_kernels_are_launched_as_generated_ones_are() -> None:
    (source,) = code_of(lambda x: _scaled(x, 2.0), torch.randn(100).to("npu"))
    assert "from inductor_npu.runtime import heuristics as triton_heuristics" in source


def test_numbers_that_are_no_integers_are_float32_as_in_tritons_own_launch() -> None:
    (source,) = code_of(lambda x: _scaled(x, 2.5), torch.randn(100).to("npu"))
    assert "'factor': 'fp32'" in source and "fp64" not in source


def test_user_kernel_that_mutates_its_input() -> None:
    def scale_in_place(x: torch.Tensor) -> torch.Tensor:
        _scale[(4,)](x, x, x.numel(), 2.0, BLOCK=256)
        return x + 1

    x = torch.randn(1000)
    moved = x.to("npu")
    actual = torch.compile(scale_in_place, fullgraph=True)(moved)
    torch.testing.assert_close(actual.cpu(), x * 2 + 1)
    torch.testing.assert_close(moved.cpu(), x * 2)


@pytest.mark.embedded
def test_user_kernel_over_the_unified_buffer_is_an_error_with_numbers() -> None:
    def too_large(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _scale[(1,)](x, y, x.numel(), 2.0, BLOCK=1 << 18)
        return y

    with pytest.raises(Exception, match=r"196608|Unified Buffer"):
        torch.compile(too_large)(torch.randn(100).to("npu"))


def test_the_error_base_class_is_a_runtime_error() -> None:
    assert issubclass(NpuError, RuntimeError)

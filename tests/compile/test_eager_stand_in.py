"""A kernel that cannot be compiled: its loops run as eager operators, with one warning; an error in strict mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from triton.compiler.errors import CompilationError

import inductor_npu.config
from inductor_npu.codegen.fallback.eager_kernel import reason_of
from inductor_npu.codegen.scheduling import npu_scheduling as scheduling
from inductor_npu.errors import KernelTooLargeError, NpuWarning
from inductor_npu.simulator.triton_backend.errors import UnifiedBufferExceededError
from inductor_npu.simulator.triton_backend.object_code import LlvmError
from tests.compile.helpers import check


@pytest.fixture
def broken_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """No kernel compiles; the names of those that were tried are collected."""
    tried: list[str] = []

    def fail(name: str, source: str) -> Exception:
        tried.append(name)
        return NotImplementedError("tl.frobnicate is not supported")

    monkeypatch.setattr(scheduling, "compile_in_process", fail)
    monkeypatch.delenv("INDUCTOR_NPU_STRICT", raising=False)
    with inductor_npu.config.patch(strict=False):
        yield tried


def _in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + y
    x.mul_(2)
    y[1:3] = 5
    return z * x + y.sum()


def _reductions(x: torch.Tensor) -> tuple[Any, ...]:
    return torch.softmax(x, -1), x.var(0), x.argmax(1), x.amin(), x.prod(1), x.cumsum(1), *torch.sort(x, dim=1)


def _indexing(x: torch.Tensor) -> tuple[Any, ...]:
    index = torch.tensor([1, 0, 2], device=x.device)
    return x[index], x.index_add(0, index, x[:3]), torch.nn.functional.pad(x, (1, 2)), torch.cat([x, x.flip(0)])


def _lists(*tensors: torch.Tensor) -> list[torch.Tensor]:
    torch._foreach_mul_(tensors, 2.0)
    return torch._foreach_exp(torch._foreach_neg(tensors))


def _positions(x: torch.Tensor) -> tuple[Any, ...]:
    return x.t().argmax(), x.t().round().argmin(), (x.t() + 1).argmax(), x.argmin()


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "elementwise": (lambda x: torch.erf(x) * x, (torch.randn(33, 7),)),
    "in place": (_in_place, (torch.randn(6, 5), torch.randn(6, 5))),
    "positions": (_positions, (torch.randn(9, 40),)),
    "reductions": (_reductions, (torch.randn(9, 40),)),
    "indexing": (_indexing, (torch.randn(5, 6),)),
    "half precision": (lambda x: (x * 1.001 + x.exp()).sum(1), (torch.randn(8, 50).half(),)),
    "lists of tensors": (_lists, (torch.randn(30), torch.randn(7, 5), torch.randn(600, 1000))),
    "transposed": (lambda x: (x.t() + 1).contiguous() * 2, (torch.randn(20, 30),)),
}


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_compiled_kernel(name: str, broken_compiler: list[str]) -> None:
    fn, inputs = FUNCTIONS[name]
    check(fn, *inputs)
    assert broken_compiler


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
def test_conditions_on_sizes(broken_compiler: list[str]) -> None:
    check(lambda x: x * (x.shape[0] % 2 == 0) + (x.shape[1] > 5), torch.randn(7, 6), dynamic=True)


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
def test_gradients(broken_compiler: list[str]) -> None:
    x, w = torch.randn(7, 30, requires_grad=True), torch.randn(30, requires_grad=True)
    check(lambda x, w: torch.nn.functional.layer_norm(x, (30,), w).tanh(), x, w, backward=True)


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
def test_lists_of_tensors_with_dynamic_shapes(broken_compiler: list[str]) -> None:
    compiled = torch.compile(_lists, dynamic=True)
    for lengths in ((3, 5), (8, 40)):
        check(_lists, *map(torch.randn, lengths), compiled=compiled)


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
def test_dynamic_shapes(broken_compiler: list[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) + x.flip(0)

    compiled = torch.compile(fn, dynamic=True)
    for shape in ((3, 5), (8, 40)):
        check(fn, torch.randn(shape), compiled=compiled)


def test_one_warning_names_kernel_operators_and_reason(broken_compiler: list[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = torch.compile(lambda x: torch.sin(x) + 1)
        x = torch.randn(5).to("npu")
        compiled(x)
        compiled(x)
    (message,) = [str(w.message) for w in caught if issubclass(w.category, NpuWarning)]
    assert "triton_poi_fused" in message
    assert "sin" in message
    assert "tl.frobnicate is not supported" in message
    assert "INDUCTOR_NPU_STRICT" in message


def test_strict_mode_raises(broken_compiler: list[str]) -> None:
    with (
        inductor_npu.config.patch(strict=True),
        pytest.raises(Exception, match=r"tl.frobnicate is not supported.*strict"),
    ):
        torch.compile(lambda x: torch.cos(x) + 1)(torch.randn(5).to("npu"))


def test_random_numbers_are_refused_rather_than_drawn_differently(broken_compiler: list[str]) -> None:
    with pytest.raises(Exception, match="cannot run in eager either because the operation"):
        torch.compile(lambda x: torch.rand_like(x))(torch.randn(5).to("npu"))


def test_the_reason_is_the_sentence_and_not_the_details_below_or_above_it() -> None:
    tiles = ((16384, "tensor<4096xf32>", "kernel.py:3:4"),)
    too_large = UnifiedBufferExceededError(300_000, 196_608, "Unified Buffer", "kernel", tiles)
    assert reason_of(too_large).startswith("UnifiedBufferExceededError: kernel kernel does not fit: 300000 bytes")
    named = KernelTooLargeError(kernel="kernel", target="Ascend910B3", blocks={"XBLOCK": 1}, reason=too_large)
    assert reason_of(named).startswith("KernelTooLargeError: kernel kernel does not fit Ascend910B3")
    assert reason_of(CompilationError("at 3:4:\nx = y\n    ^", None, "no y")) == "CompilationError: no y"
    refused = LlvmError("LLVM IR parsing error\n<string>:2:8: error: invalid cast\n  %y = bitcast\n       ^")
    assert reason_of(refused) == "LlvmError: <string>:2:8: error: invalid cast"

"""Products of matrices, whose kernels call the library's by their signature (csrc/direct_call.h): what every other
operator does through the fallback, they do themselves or leave to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.device.native_kernels import launch, register

SIZES = [(5, 7, 3), (1, 1, 1), (4, 0, 3), (0, 7, 3), (5, 7, 0)]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]


def npu_and_cpu(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    cpu = torch.randn(*sizes, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return cpu.to("npu"), cpu


def assert_same(npu: torch.Tensor, cpu: torch.Tensor) -> None:
    assert npu.device.type == "npu"
    torch.testing.assert_close(npu.cpu(), cpu)
    assert npu.stride() == cpu.stride()


def operands(name: str, rows: int, inner: int, columns: int, dtype: torch.dtype) -> list[tuple[Any, Any]]:
    """What the product `name` takes, on npu and on the CPU."""
    batch = (3,) if "bmm" in name else ()
    factors = [
        npu_and_cpu(*batch, rows, inner, dtype=dtype),
        npu_and_cpu(*batch, inner, columns, dtype=dtype),
    ]
    return [npu_and_cpu(columns, dtype=dtype), *factors] if "add" in name else factors


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["mm", "addmm", "bmm", "baddbmm"])
def test_products_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    for sizes in SIZES:
        npu, cpu = zip(*operands(name, *sizes, dtype), strict=True)
        assert_same(function(*npu), function(*cpu))
        result, expected = torch.empty(0, dtype=dtype, device="npu"), torch.empty(0, dtype=dtype)
        assert function(*npu, out=result) is result
        assert_same(result, function(*cpu, out=expected))


def test_numbers_scale_the_sum() -> None:
    (bias, x, y), (cpu_bias, cpu_x, cpu_y) = zip(*operands("addmm", 5, 7, 3, torch.float32), strict=True)
    assert_same(torch.addmm(bias, x, y, beta=2, alpha=-0.5), torch.addmm(cpu_bias, cpu_x, cpu_y, beta=2, alpha=-0.5))


def test_gradients_and_views() -> None:
    x, cpu_x = npu_and_cpu(6, 8)
    y, cpu_y = npu_and_cpu(8, 6)
    for left, right in ((x, y), (cpu_x, cpu_y)):
        left.requires_grad_()
        right.requires_grad_()
        torch.addmm(left[:3, 0], left[::2, 1::2], right[::2, 3:]).sum().backward()
        torch.mm(right.t(), left.t()).sum().backward()
    assert_same(x.grad, cpu_x.grad)
    assert_same(y.grad, cpu_y.grad)


def test_conjugated_and_negated_views() -> None:
    x, cpu = npu_and_cpu(4, 4, dtype=torch.complex64)
    torch.testing.assert_close(torch.mm(x.conj(), x.mH).cpu(), torch.mm(cpu.conj(), cpu.mH))
    torch.testing.assert_close(torch.mm(x.conj().imag, x.real).cpu(), torch.mm(cpu.conj().imag, cpu.real))


def test_a_result_is_written_where_it_is() -> None:
    x, cpu = npu_and_cpu(4, 4)
    base = torch.zeros(4, 8, device="npu")
    version = base._version
    torch.mm(x, x, out=base[:, ::2])
    assert base._version > version
    torch.testing.assert_close(base[:, ::2].cpu(), cpu @ cpu)
    assert not base[:, 1::2].any()


def test_sparse_tensors_have_kernels_of_their_own() -> None:
    x, cpu = npu_and_cpu(4, 4)
    torch.testing.assert_close(torch.mm(x.to_sparse(), x).cpu(), torch.mm(cpu, cpu))


@pytest.mark.embedded  # CUDA's library refuses it for its own tensors, too
def test_a_zero_dimensional_tensor_of_the_cpu_may_be_added() -> None:
    x, cpu = npu_and_cpu(4, 4)
    assert_same(torch.addmm(torch.tensor(2.0), x, x), torch.addmm(torch.tensor(2.0), cpu, cpu))


@pytest.mark.embedded
def test_types_that_the_library_lacks_are_computed_in_wider_ones() -> None:
    x = torch.randn(3, 3, dtype=torch.complex32)
    wide = x.to(torch.complex64)
    expected = (wide @ wide).to(torch.complex32)
    torch.testing.assert_close(torch.view_as_real(torch.mm(x.npu(), x.npu()).cpu()), torch.view_as_real(expected))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.mm(x, x[:2]), "operator aten::mm on npu:0"),
        (lambda x: torch.mm(x, x, out=torch.empty(3, 3, dtype=torch.int32, device="npu")), "operator aten::mm.out"),
        (lambda x: torch.bmm(x, x), "operator aten::bmm on npu:0"),
    ],
)
def test_an_error_names_the_operator_and_leaves_the_arguments(call: Callable[..., Any], message: str) -> None:
    x = torch.ones(3, 3, device="npu")
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        call(x)
    assert torch.mm(x, x).sum().item() == 27


def test_running_out_of_memory_names_the_operator() -> None:
    x = torch.ones(1 << 20, 1, device="npu")
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match="operator aten::mm on npu:0"):
        torch.mm(x, x.t())
    assert torch.npu.memory_stats()["num_ooms"] == before + 1


@pytest.mark.failing_kernel
def test_the_failure_of_earlier_work_is_raised_by_a_product() -> None:
    x = torch.ones(2, 2, device="npu")
    launch(register("assert_not", name="checked", messages=("first", "index out of range")), "l", 0)
    with pytest.raises(RuntimeError, match="checked failed on npu:0"):
        torch.mm(x, x)
    assert torch.mm(x, x).sum().item() == 8

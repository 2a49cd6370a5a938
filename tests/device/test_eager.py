"""Operators in eager mode: what the CPU gives, on the device of the inputs, or a clear error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map


def to_device(value: Any, device: str) -> Any:
    """A copy of nested arguments with tensors and device arguments on `device`; shared tensors stay shared."""
    copies: dict[int, torch.Tensor] = {}

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in copies:
                moved = leaf.detach().clone() if device == "cpu" else leaf.detach().to(device)
                copies[id(leaf)] = moved.requires_grad_(leaf.requires_grad)
            return copies[id(leaf)]
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return tree_map(convert, value)


def assert_same(actual: Any, expected: Any) -> None:
    """Values, dtypes, sizes and strides of `actual` (on npu) and `expected` (on the CPU) agree."""
    for npu, cpu in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(cpu, torch.Tensor):
            assert npu.device.type == "npu"
            torch.testing.assert_close(npu.cpu(), cpu, equal_nan=True)
            assert npu.stride() == cpu.stride()


def sampled_operators() -> list[Any]:
    """Every fourth operator of PyTorch's own table that takes dense float32 tensors and gives determined values."""
    from torch.testing._internal.common_methods_invocations import op_db

    draws = ["bernoulli", "cauchy", "dropout", "exponential", "geometric"]
    draws += ["multinomial", "normal", "poisson", "rand", "rrelu", "uniform"]
    unsuitable = (
        *draws,  # each device its own numbers
        "empty",
        "sparse",
        "tensor_split",
        "linalg.",
        "to_sparse",
        "jiterator",
    )  # linalg: signs of eigenvectors are free
    suitable = [op for op in op_db if torch.float32 in op.dtypes and not any(part in op.name for part in unsuitable)]
    return suitable[::4]


@pytest.mark.slow
def test_a_sample_of_all_operators_agrees_with_the_cpu_forward_and_backward() -> None:
    calls = 0
    for op in sampled_operators():
        sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)))
        arguments = ((sample.input, *sample.args), sample.kwargs)
        (cpu_args, cpu_kwargs), (npu_args, npu_kwargs) = to_device(arguments, "cpu"), to_device(arguments, "npu")
        if cpu_kwargs.get("device") == "cpu":
            npu_kwargs["device"] = "npu"
        torch.manual_seed(0)
        expected = op.op(*cpu_args, **cpu_kwargs)
        torch.manual_seed(0)
        actual = op.op(*npu_args, **npu_kwargs)
        assert_same(actual, expected)
        cpu_roots = [leaf for leaf in tree_leaves(expected) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        npu_roots = [leaf for leaf in tree_leaves(actual) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if cpu_roots:
            torch.autograd.backward(cpu_roots, [torch.ones_like(root) for root in cpu_roots])
            torch.autograd.backward(npu_roots, [torch.ones_like(root) for root in npu_roots])
            for cpu, npu in zip(tree_leaves((cpu_args, cpu_kwargs)), tree_leaves((npu_args, npu_kwargs)), strict=True):
                if isinstance(cpu, torch.Tensor) and cpu.grad is not None:
                    torch.testing.assert_close(npu.grad.cpu(), cpu.grad, equal_nan=True)
        calls += 1
    assert calls > 120


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
    ],
)
def test_every_dtype_converts_to_and_fro(dtype: torch.dtype) -> None:
    expected = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]], device="npu").to(dtype)
    assert torch.equal(tensor.cpu(), expected)
    assert torch.equal(tensor.to(torch.complex128).cpu(), expected.to(torch.complex128))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (7,), (3, 5), (2, 3, 5)])
def test_sizes_down_to_empty_and_zero_dimensional(shape: tuple[int, ...]) -> None:
    cpu = torch.randn(shape)
    assert_same(cpu.npu() * 2 + 1, cpu * 2 + 1)
    assert_same(cpu.npu().sum(), cpu.sum())


def test_out_is_resized_and_returned() -> None:
    out = torch.empty(0, device="npu")
    a = torch.randn(20, 30, device="npu")
    result = torch.add(a, 1, out=out)
    assert result is out
    assert torch.equal(out.cpu(), a.cpu() + 1)


def test_out_of_several_results() -> None:
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    a = torch.randn(4, 9, device="npu")
    torch.sort(a, out=(values, indices))
    assert_same((values, indices), tuple(torch.sort(a.cpu())))


def test_out_with_strides_keeps_them() -> None:
    base = torch.zeros(4, 6, device="npu")
    torch.mul(torch.ones(4, 3, device="npu"), 5, out=base[:, ::2])
    assert torch.equal(base.cpu(), torch.tensor([5.0, 0, 5, 0, 5, 0]).expand(4, 6))


def test_in_place_returns_the_same_tensor_and_memory() -> None:
    a = torch.ones(5, device="npu")
    pointer = a.data_ptr()
    assert a.add_(1) is a
    assert a.data_ptr() == pointer
    assert a.tolist() == [2.0] * 5


def test_operators_on_lists_of_tensors() -> None:
    cpu = [torch.randn(3), torch.randn(2, 2), torch.randn(())]
    npu = [tensor.npu() for tensor in cpu]
    torch._foreach_mul_(cpu, 3.0)
    torch._foreach_mul_(npu, 3.0)
    assert_same(npu, cpu)
    assert_same(torch._foreach_norm(npu), torch._foreach_norm(cpu))
    assert_same(torch.cat([t.flatten() for t in npu]), torch.cat([t.flatten() for t in cpu]))
    assert_same(torch.split(npu[1], 1), torch.split(cpu[1], 1))


def test_a_zero_dimensional_cpu_tensor_mixes_as_on_cuda() -> None:
    a = torch.ones(3, device="npu")
    assert (a + torch.tensor(2.0)).device.type == "npu"
    assert (torch.tensor(2.0) * a).tolist() == [2.0, 2.0, 2.0]
    assert torch.where(a > 0, a, torch.tensor(7.0)).tolist() == [1.0, 1.0, 1.0]


def test_cpu_indices_are_taken_as_on_cuda() -> None:
    a = torch.arange(6.0, device="npu").reshape(2, 3)
    assert a[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]]
    a[torch.tensor([0]), torch.tensor([2])] = 9.0
    assert a[0, 2].item() == 9.0


@pytest.mark.parametrize(
    "call",
    [
        lambda npu, cpu: npu + cpu,
        lambda npu, cpu: torch.mm(npu, cpu),
        lambda npu, cpu: torch.cat([npu, cpu]),
        lambda npu, cpu: cpu.add_(npu),
        lambda npu, cpu: torch.add(npu, npu, out=cpu),
        lambda npu, cpu: torch.nn.functional.linear(npu, cpu),
        lambda npu, cpu: torch.nn.functional.conv2d(npu[None, None], cpu[None, None]),
        lambda npu, cpu: torch.sort(npu, out=(cpu, cpu.long())),
    ],
)
def test_a_mix_of_devices_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(
        RuntimeError, match=r"(?s)[Ee]xpected all tensors to be on the same device.*(npu:0.*cpu|cpu.*npu:0)"
    ):
        call(torch.ones(3, 3, device="npu"), torch.ones(3, 3))


@pytest.mark.two_devices
def test_a_mix_of_two_npus_is_refused() -> None:
    with pytest.raises(RuntimeError, match="at least two devices, npu:0 and npu:1"):
        torch.mm(torch.ones(2, 2, device="npu:0"), torch.ones(2, 2, device="npu:1"))
    with pytest.raises(RuntimeError, match="at least two devices, npu:0 and npu:1"):
        torch.conv1d(torch.ones(2, 2, device="npu:0"), torch.ones(2, 2, 1, device="npu:1"))


@pytest.mark.two_devices
def test_results_are_on_the_device_of_the_inputs() -> None:
    a = torch.ones(3, device="npu:1")
    for result in (a + 1, a.sort().values, torch.unique(a), a.nonzero(), torch.zeros_like(a), a.to(torch.int32)):
        assert result.device == torch.device("npu:1")
    assert torch.tril_indices(3, 3, device="npu:1").device == torch.device("npu:1")


@pytest.mark.failing_kernel
def test_an_error_names_the_operator() -> None:
    with pytest.raises(
        RuntimeError, match=r"operator aten::cholesky|operator aten::linalg_cholesky_ex|linalg.cholesky"
    ):
        torch.linalg.cholesky(-torch.eye(3, device="npu"))
    with pytest.raises(IndexError, match="operator aten::index_select on npu:0"):
        torch.index_select(torch.ones(3, device="npu"), 0, torch.tensor([5], device="npu"))


@pytest.mark.embedded
def test_an_operator_without_any_kernel_names_itself() -> None:
    with pytest.raises(NotImplementedError, match="aten::_cudnn_rnn_flatten_weight is not implemented for device npu"):
        torch.ops.aten._cudnn_rnn_flatten_weight([torch.ones(1, device="npu")], 1, 1, 2, 1, 1, 1, True, False)


@pytest.mark.embedded
def test_a_custom_operator_runs_its_cpu_kernel_on_npu_memory() -> None:
    with torch.library._scoped_library("npu_test", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x * 2, "CPU")
        assert_same(torch.ops.npu_test.double(torch.ones(3, device="npu")), torch.full((3,), 2.0))


def test_reading_elements() -> None:
    a = torch.tensor([[1, 2], [3, 4]], device="npu")
    assert a[1, 0].item() == 3
    assert a.tolist() == [[1, 2], [3, 4]]
    assert int(a.sum()) == 10
    assert bool((a > 0).all())
    assert repr(a) == "tensor([[1, 2],\n        [3, 4]], device='npu:0')"


@pytest.mark.parametrize(
    "read", [lambda a: a.numpy(), lambda a: np.asarray(a), lambda a: np.array([1.0, 2.0]) + a.numpy()]
)
def test_numpy_needs_a_copy_on_the_cpu(read: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(TypeError, match=r"can't convert npu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
        read(torch.ones(2, device="npu"))


def test_results_live_in_memory_of_the_npu() -> None:
    before = torch.npu.memory_allocated()
    values, _ = torch.sort(torch.randn(1 << 18, device="npu"))
    assert torch.npu.memory_allocated() - before >= values.nbytes
    del values, _
    assert torch.npu.memory_allocated() == before


def test_running_out_of_memory_inside_an_operator_is_recoverable() -> None:
    a = torch.ones(1 << 20, device="npu")
    with pytest.raises(torch.OutOfMemoryError):
        torch.outer(a, a)
    assert a.sum().item() == 1 << 20


def test_deepcopy_of_a_module_is_independent() -> None:
    module = torch.nn.Linear(3, 2).npu()
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.weight.zero_()
    assert twin.weight.device == module.weight.device
    assert module.weight.abs().sum().item() > 0


def test_deterministic_mode_makes_unwritten_memory_recognisable() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device="npu").isnan().all()
        assert torch.empty_strided((2,), (2,), dtype=torch.int32, device="npu").tolist() == [2**31 - 1] * 2
        grown = torch.ones(2, device="npu").resize_(4)
        assert grown[:2].tolist() == [1, 1] and grown[2:].isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_the_least_integer_by_minus_one_wraps(dtype: torch.dtype) -> None:
    """The CPU's own kernel of rounding towards zero ends the process there: there is nothing to compare with."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, 7, least, -9], dtype=dtype)
    y = torch.tensor([-1, -1, 2, 2], dtype=dtype)
    quotients = [least, -7, least // 2, -4]

    def divide(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        written, out = x.clone(), torch.empty_like(x)
        torch.div(x, y, rounding_mode="trunc", out=out)
        by_number = torch.div(x, -1, rounding_mode="trunc")
        number = torch.div(least, y, rounding_mode="trunc")
        return [torch.div(x, y, rounding_mode="trunc"), written.div_(y, rounding_mode="trunc"), out, by_number, number]

    for function in (divide, torch.compile(divide)):
        *results, by_number, number = function(x.npu(), y.npu())
        assert [result.tolist() for result in results] == 3 * [quotients]
        assert by_number.tolist() == [least, -7, least, 9]
        assert number.tolist() == [least, least, least // 2, least // 2]
        assert all(result.dtype is dtype for result in results)
    for mode in (torch.remainder, torch.fmod, torch.floor_divide):
        assert mode(x.npu(), y.npu()).cpu().equal(mode(x, y))
    if dtype is torch.int32:  # promoted first: nothing wraps
        assert torch.div(x.npu(), y.npu().long(), rounding_mode="trunc").tolist() == [-least, *quotients[1:]]


def test_compiled_integer_division_by_zero_is_zero() -> None:
    """Eager raises ZeroDivisionError; a kernel cannot."""

    def divide(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        quotients = [torch.div(x, y, rounding_mode=mode) for mode in ("trunc", "floor")]
        return [*quotients, torch.remainder(x, y), torch.fmod(x, y)]

    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        x, zero = torch.tensor([torch.iinfo(dtype).min, 7], dtype=dtype), torch.zeros(2, dtype=dtype)
        results = torch.compile(divide)(x.npu(), zero.npu())
        assert [result.tolist() for result in results] == [[0, 0], [0, 0], x.tolist(), x.tolist()]

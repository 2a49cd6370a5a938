"""Operators that CUDA has for a dtype and the CPU has not: computed in a wider one, results of the dtypes as there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from tests.compile.helpers import assert_equal

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
NARROW_FLOATS = (torch.float16, torch.bfloat16)


def counted(values: list[int], bins: int, least: int, greatest: int) -> list[int]:
    """The histogram in whole numbers, as CUDA computes it."""
    counts = [0] * bins
    for value in values:
        if least <= value <= greatest:
            counts[min((value - least) * bins // (greatest - least), bins - 1)] += 1
    return counts


def test_histograms_of_integers() -> None:
    values = [(7 * i * i + 3 * i) % 120 for i in range(500)]
    compiled = torch.compile(torch.histc, dynamic=False)
    for dtype in INTEGERS:
        x = torch.tensor(values, dtype=dtype, device="npu")
        for bins, least, greatest in ((4, 0, 3), (7, 2, 101), (49, 3, 88), (120, 0, 120), (1, 5, 6)):
            result = torch.histc(x, bins, least, greatest)
            assert result.dtype == dtype
            expected = torch.tensor(counted(values, bins, least, greatest)).to(dtype)
            assert_equal(result, expected)
        assert_equal(compiled(x, 7, 2, 101), torch.tensor(counted(values, 7, 2, 101)).to(dtype))


@pytest.mark.embedded
def test_integers_that_no_wider_type_holds_stay_an_error() -> None:
    x = torch.tensor([2**53 + 1, 3], device="npu")
    with pytest.raises(NotImplementedError, match=r"not implemented for 'Long'.*aten::histc"):
        torch.histc(x, 4)


def test_booleans() -> None:
    for function, expected in (
        (torch.abs, torch.tensor([True, False])),
        (F.softsign, torch.tensor([0.5, 0.0])),
        (lambda x: torch.eye(2, dtype=torch.bool, device=x.device).trace(), torch.tensor(2)),
    ):
        x = torch.tensor([True, False], device="npu")
        assert_equal(function(x), expected)
        assert_equal(torch.compile(function)(x), expected)


def test_shifts_of_unsigned_integers() -> None:
    values = [0, 1, 9999, 65535]
    for dtype in (torch.uint16, torch.uint32):
        bits = torch.iinfo(dtype).bits
        x = torch.tensor(values).to(dtype).npu()
        for amount in (0, 1, 7, bits - 1):
            for function, expected in (
                (lambda x, n: x >> n, [value >> amount for value in values]),
                (lambda x, n: x << n, [(value << amount) % 2**bits for value in values]),
                (torch.Tensor.bitwise_right_shift_, [value >> amount for value in values]),
            ):
                wanted = torch.tensor(expected).to(dtype)
                assert_equal(function(x.clone(), amount), wanted)
                assert_equal(torch.compile(function, dynamic=False)(x.clone(), amount), wanted)


def half_precision_functions() -> list[tuple[Callable[..., Any], list[torch.Tensor]]]:
    torch.manual_seed(1)  # no margin of exactly 0, whose gradient is a matter of taste
    classes = torch.tensor([0, 2, 1, 4])
    return [
        (lambda x: F.avg_pool3d(x, 2), [torch.randn(1, 2, 4, 4, 4)]),
        (lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", antialias=True), [torch.randn(1, 2, 8, 8)]),
        (F.multi_margin_loss, [torch.randn(4, 5), classes]),
        (F.multilabel_margin_loss, [torch.randn(4, 5), torch.randint(0, 5, (4, 5))]),
    ]


@pytest.mark.parametrize("dtype", NARROW_FLOATS)
@pytest.mark.parametrize("compiled", [False, True])
def test_half_precision_with_gradients(dtype: torch.dtype, compiled: bool) -> None:
    for function, (x, *others) in half_precision_functions():
        narrow = x.to(dtype)
        exact = narrow.float().requires_grad_()
        moved = narrow.to("npu").requires_grad_()
        expected = function(exact, *others)
        actual = (torch.compile(function) if compiled else function)(moved, *(other.to("npu") for other in others))
        expected.sum().backward()
        actual.sum().backward()
        assert_equal([actual, moved.grad], [expected.to(dtype), exact.grad.to(dtype)])


def test_random_numbers_of_half_precision() -> None:
    x = torch.linspace(-2, 2, 40).half().to("npu")
    torch.npu.manual_seed(3)
    result = F.rrelu(x, training=True)
    torch.npu.manual_seed(3)
    assert_equal(result, F.rrelu(x.float(), training=True).half().cpu())


@pytest.mark.embedded
def test_complex_numbers() -> None:
    x = torch.randn(6, dtype=torch.complex32)
    y = torch.randn(6, dtype=torch.complex32)
    wide, other = x.to(torch.complex64), y.to(torch.complex64)
    for function in (torch.cos, torch.exp, torch.sqrt, torch.sum, torch.fft.fft):
        result = function(x.to("npu"))
        assert result.dtype == torch.complex32
        assert_equal(torch.view_as_real(result).float().half(), torch.view_as_real(function(wide)).half())
    assert_equal(torch.view_as_real(x.to("npu") / y.to("npu")), torch.view_as_real(wide / other).half())
    assert_equal(x.to("npu").angle(), wide.angle().half())
    holes = torch.tensor([[1 + 1j, float("nan")], [2, 3]], dtype=torch.complex64)
    assert_equal(holes.to("npu").nansum(0), torch.tensor([3 + 1j, 3]))
    assert_equal(torch.view_as_real(holes.to(torch.complex32).to("npu").nansum()).float(), torch.tensor([6.0, 1.0]))


def test_what_is_written_in_place() -> None:
    x = torch.randn(6, dtype=torch.complex32)
    moved = x.to("npu")
    assert moved.cos_() is moved
    assert_equal(torch.view_as_real(moved), torch.view_as_real(x.to(torch.complex64).cos()).half())
    result = torch.empty(0, dtype=torch.float16, device="npu")
    values = torch.randn(1, 2, 4, 4, 4).half()
    assert torch._C._nn.avg_pool3d(values.to("npu"), 2, out=result) is result
    assert_equal(result, F.avg_pool3d(values.float(), 2).half())
    flags = torch.tensor([True, False], device="npu")
    assert_equal(flags.abs_(), torch.tensor([True, False]))


def test_errors_of_other_kinds_stay() -> None:
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.ones(3, device="npu").half() + torch.ones(4, device="npu").half()
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.avg_pool2d(torch.ones(1, 2, 2, dtype=torch.int32, device="npu"), 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_sample_of_what_cuda_takes_and_the_cpu_does_not() -> None:
    """Forward with the dtypes of shape inference, and backward; but those that PyTorch refuses before any kernel."""
    from torch.testing._internal.common_methods_invocations import op_db

    refused = []
    for op in op_db:
        for dtype in sorted(op.supported_dtypes("cuda") - op.supported_dtypes("cpu"), key=str):
            trained = op.supports_autograd and dtype in op.supported_backward_dtypes("cuda")
            for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=trained), 2):
                moved = pytree.tree_map_only(torch.Tensor, lambda t: t.to("npu"), (sample.args, sample.kwargs))
                try:
                    result = pytree.tree_leaves(op.op(sample.input.to("npu"), *moved[0], **moved[1]))
                    sums = [t.sum() for t in result if isinstance(t, torch.Tensor) and t.requires_grad]
                    torch.autograd.backward(sums, [torch.ones_like(t) for t in sums])
                except (NotImplementedError, RuntimeError) as error:
                    refused.append((op.name, dtype, str(error)))
    expected = {
        name
        for name, dtype, error in refused
        if (name.startswith("fft.") and dtype == torch.float16 and "Unsupported dtype Half" in error)
        or ("_attention_forward" in name and "is not implemented for device npu" in error)
    }
    assert {name for name, _, _ in refused} == expected, refused

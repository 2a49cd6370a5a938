"""Convolutions as kernels: every geometry, layout and dtype, forward and backward, against eager in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from inductor_npu import providers
from tests.compile.convolutions.convolving import Case, check, close
from tests.compile.helpers import code_of, to_npu

HALVES = (torch.float16, torch.bfloat16)


def is_kernel(case: Case) -> bool:
    """Whether `case` compiles without a call of the library; where the chip has no cube cores, that is none's task."""
    if providers.current_target().cube_cores == 0:
        return True
    sources = code_of(case, *(to_npu(operand) for operand in case.tensors()))
    lines = [line for source in sources for line in source.splitlines() if not line.lstrip().startswith("#")]
    return not any("convolution" in line for line in lines if "extern_kernels." in line or "torch.ops." in line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(32, 48, 14, padding=1),
        Case(32, 48, 13, step=2, padding=1),
        Case(32, 48, 14, step=2, padding=1, channels_last=True),
        Case(16, 24, 9, taps=5, step=3, padding=2, batch=1),
        Case(32, 48, 11, padding=2, dilation=2),
        Case(64, 96, 14, taps=1),
        Case(64, 96, 13, taps=1, step=2),
        Case(64, 96, 13, taps=1, channels_last=True),
        Case(64, 32, 8, taps=1, padding=1),
        Case(16, 24, 7, padding=1, batch=40, channels_last=True),
        Case(16, 5, 7, padding=1, batch=1, bias=False),
    ],
    ids=str,
)
def test_windows(case: Case) -> None:
    check(case)
    assert is_kernel(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(3, 32, 33, taps=7, step=2, padding=3),
        Case(3, 32, 20, padding=1, channels_last=True),
        Case(3, 48, 32, taps=8, step=8),
        Case(1, 16, 28, padding=1),
        Case(16, 1, 9, padding=1),
        Case(16, 3, 9, padding=1),
        Case(16, 24, 3, batch=1),
    ],
    ids=str,
)
def test_few_channels_or_places(case: Case) -> None:
    check(case)
    assert is_kernel(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(32, 64, 12, padding=1, groups=4),
        Case(32, 64, 12, step=2, padding=1, groups=4, channels_last=True),
        Case(24, 24, 12, padding=1, groups=24),
        Case(24, 24, 13, step=2, padding=1, groups=24, channels_last=True),
        Case(24, 48, 12, padding=1, groups=24),
        Case(16, 16, 15, taps=9, padding=4, groups=16),
    ],
    ids=str,
)
def test_groups(case: Case) -> None:
    check(case)
    assert is_kernel(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(32, 24, 7, step=2, padding=1, more=1, transposed=True),
        Case(32, 24, 7, taps=2, step=2, transposed=True),
        Case(32, 24, 7, taps=4, step=2, padding=1, groups=2, transposed=True, channels_last=True),
        Case(32, 3, 7, padding=1, transposed=True),
        Case(16, 24, 7, padding=1, dilation=2, transposed=True),
        Case(24, 24, 7, taps=4, step=2, padding=1, groups=24, transposed=True),
        Case(16, 16, 5, taps=2, step=3, transposed=True),
    ],
    ids=str,
)
def test_transposed(case: Case) -> None:
    check(case)
    assert is_kernel(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(16, 24, 40, taps=5, step=2, padding=2, dimensions=1),
        Case(16, 24, 40, taps=1, dimensions=1),
        Case(16, 24, 10, taps=4, step=2, padding=1, dimensions=1, transposed=True),
        Case(16, 24, 40, taps=3, padding=2, dilation=2, groups=2, dimensions=1),
        Case(8, 24, 7, padding=1, batch=1, dimensions=3),
        Case(3, 24, 8, taps=2, step=2, batch=1, dimensions=3),
    ],
    ids=str,
)
def test_one_and_three_dimensions(case: Case) -> None:
    check(case)
    assert is_kernel(case)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "case",
    [
        {"channels": 32, "results": 48, "side": 14, "padding": 1},
        {"channels": 64, "results": 32, "side": 9, "taps": 1},
        {"channels": 32, "results": 16, "side": 9, "taps": 4, "step": 2, "padding": 1, "transposed": True},
        {"channels": 24, "results": 24, "side": 12, "padding": 1, "groups": 24},
    ],
    ids=str,
)
def test_half_types_are_rounded_once(dtype: torch.dtype, case: dict) -> None:
    check(Case(dtype=dtype, **case))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("channels", [3, 32])
def test_dynamic_sizes(step: int, channels: int) -> None:
    weight = torch.randn(24, channels, 3, 3)

    def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, None, step, 1)

    compiled = torch.compile(convolve, fullgraph=True)
    for number, size in enumerate(((2, 14, 14), (3, 17, 15), (5, 9, 30), (4, 12, 10))):
        image = torch.randn(size[0], channels, *size[1:])
        with torch.no_grad(), torch.compiler.set_stance("fail_on_recompile" if number > 1 else "default"):
            got = compiled(image.to("npu"), weight.to("npu"))
        close(got, convolve(image.double(), weight.double()), torch.float32)


@pytest.mark.embedded  # cuDNN's gradients have fewer digits, in eager as well
@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2])
def test_gradients_of_dynamic_sizes(step: int) -> None:
    weight = torch.randn(24, 32, 3, 3)

    def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, None, step, 1)

    compiled = torch.compile(convolve, fullgraph=True, dynamic=True)
    for size in ((2, 14, 14), (3, 17, 15)):
        leaves = [torch.randn(size[0], 32, *size[1:]).to("npu").requires_grad_(), weight.to("npu").requires_grad_()]
        references = [leaf.detach().cpu().double().requires_grad_() for leaf in leaves]
        compiled(*leaves).sum().backward()
        convolve(*references).sum().backward()
        for leaf, reference in zip(leaves, references, strict=True):
            close(leaf.grad, reference.grad, torch.float32)


def test_not_a_number_and_infinity_stay_where_the_window_covers_them() -> None:
    image = torch.randn(1, 16, 9, 9)
    image[0, 3, 4, 4], image[0, 5, 0, 8] = float("nan"), float("inf")
    weight = torch.rand(24, 16, 3, 3) + 0.5

    def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, None, 1, 1)

    got = torch.compile(convolve)(image.to("npu"), weight.to("npu")).cpu()
    wanted = convolve(image, weight)
    assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())


def test_a_slice_of_an_image_is_read_where_it_is() -> None:
    image, weight = torch.randn(2, 40, 12, 12), torch.randn(24, 16, 3, 3)

    def convolve(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image[:, 8:24, 1:, ::2], weight)

    got = torch.compile(convolve)(image.to("npu"), weight.to("npu"))
    close(got, convolve(image.double(), weight.double()), torch.float32)


@pytest.mark.slow
def test_the_gradient_of_a_mean_is_one_number_for_all_places() -> None:
    def mean(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(image, weight, padding=1).mean((2, 3))

    references = [torch.randn(2, 16, 9, 9).double(), torch.randn(24, 16, 3, 3).double()]
    leaves = [reference.float().to("npu").requires_grad_() for reference in references]
    torch.compile(mean)(*leaves).square().sum().backward()
    mean(*(reference.requires_grad_() for reference in references)).square().sum().backward()
    for leaf, reference in zip(leaves, references, strict=True):
        close(leaf.grad, reference.grad, torch.float32)

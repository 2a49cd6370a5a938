"""Max pools over windows of many elements that overlap: one axis after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls

# size, stride, padding, dilation of the windows, and the input's lengths
WINDOWS = [
    (5, 1, 2, 1, (2, 3, 9, 17)),
    (9, 1, 4, 1, (2, 3, 12, 12)),
    ((3, 13), (1, 2), (1, 6), 1, (1, 2, 7, 30)),
    (7, 3, 0, 1, (2, 3, 16, 19)),
    ((5, 6), (1, 2), (2, 1), 2, (2, 3, 20, 30)),
    (6, 4, 3, (1, 3), (3, 25, 33)),  # no batch
    (3, 1, 1, 1, (3, 4, 5, 9)),
    ((1, 5, 5), (2, 2, 2), (0, 2, 2), 1, (1, 2, 5, 9, 11)),
    ((4, 3, 5), (2, 3, 4), (1, 0, 2), (1, 2, 1), (1, 2, 9, 14, 18)),
]
SLOW_WINDOWS = [(3, 2, 1, 1, (2, 3, 6, 9, 11))]


def pool(*settings: Any, **options: Any) -> Callable[[torch.Tensor], Any]:
    """A max pool over as many axes as the windows' settings or, without any, the input's lengths say."""

    def run(x: torch.Tensor) -> Any:
        axes = next((len(each) for each in settings if isinstance(each, tuple)), 3 if x.dim() == 5 else 2)
        return (F.max_pool3d if axes == 3 else F.max_pool2d)(x, *settings, **options)

    return run


def tenths(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of which several in a window are equal."""
    return (torch.randn(shape) * 10).round().to(dtype) / 10


@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation", "shape"),
    [*WINDOWS, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW_WINDOWS)],
)
def test_the_first_of_the_greatest_is_found(size: Any, stride: Any, padding: Any, dilation: Any, shape: Any) -> None:
    check(pool(size, stride, padding, dilation, return_indices=True), tenths(*shape))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stride", "padding", "dilation", "shape"), WINDOWS[2::3])
def test_where_it_was_need_not_be_asked_for(size: Any, stride: Any, padding: Any, dilation: Any, shape: Any) -> None:
    check(pool(size, stride, padding, dilation), tenths(*shape))


@pytest.mark.slow
def test_where_it_was_need_not_be_asked_for_in_any_other_windows() -> None:
    others = [*WINDOWS[::3], *WINDOWS[1::3], *SLOW_WINDOWS]
    pools = [pool(*settings) for *settings, _ in others]
    check(lambda *images: [each(x) for each, x in zip(pools, images)], *(tenths(*shape) for *_, shape in others))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 2, 3, 6, 5), (2, 8, 7, 9)], ids=["3d", "2d"])
def test_windows_that_reach_beyond_the_end(shape: tuple[int, ...]) -> None:
    size = 3 if len(shape) == 5 else 5
    check(pool(size, 2, 1, ceil_mode=True, return_indices=True), tenths(*shape))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_values_of_any_type(dtype: torch.dtype) -> None:
    check(pool(5, 2, 2, return_indices=True), tenths(2, 3, 11, 17, dtype=dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64], ids=str)
def test_integers(dtype: torch.dtype) -> None:
    check(pool(5, 2, 2, return_indices=True), torch.randint(-9, 9, (2, 3, 11, 17)).to(dtype))


@pytest.mark.slow
def test_a_nan_is_the_greatest() -> None:
    x = torch.randn(1, 2, 12, 16)
    x[0, 1, 4, 7] = float("nan")
    check(pool(5, 1, 2, return_indices=True), x)


@pytest.mark.slow
def test_gradients_reach_what_was_chosen() -> None:
    check(lambda x: pool(5, 2, 2)(x * 2).sin(), torch.randn(2, 3, 11, 17, requires_grad=True), backward=True)
    check(lambda x: pool(3, 2, 1)(x * 2).sin(), torch.randn(1, 2, 5, 9, 11, requires_grad=True), backward=True)


@pytest.mark.slow
def test_channels_last_and_slices() -> None:
    check(pool(5, 1, 2), torch.randn(2, 8, 9, 11).to(memory_format=torch.channels_last))
    check(pool(5, 1, 2, return_indices=True), torch.randn(2, 8, 9, 24)[..., 1::2])


@pytest.mark.slow
def test_sizes_as_arguments() -> None:
    compiled = torch.compile(pool(5, 1, 2), dynamic=True)
    for height, width in ((9, 17), (12, 8), (5, 40)):
        check(pool(5, 1, 2), torch.randn(2, 3, height, width), compiled=compiled)


@pytest.mark.slow
def test_a_kernel_for_each_axis() -> None:
    assert calls(pool(13, 1, 6), torch.randn(2, 4, 20, 20)) == {KERNEL: 2}
    assert calls(pool(3, 2, 1), torch.randn(2, 4, 8, 9, 10)) == {KERNEL: 3}


def test_windows_side_by_side_are_read_at_once() -> None:
    assert calls(pool(8), torch.randn(2, 4, 32, 32)) == {KERNEL: 1}


def test_the_pass_can_be_switched_off() -> None:
    x = torch.randn(2, 4, 20, 20)
    with config.patch(graph_passes="none"):
        assert calls(pool(13, 1, 6), x) == {KERNEL: 1}


def test_kernels_are_said_to_be_from_the_pool() -> None:
    x = torch.randn(2, 4, 20, 20, device="npu")
    _, (module,) = run_and_get_code(torch.compile(pool(5, 1, 2)), x)
    names = set(re.findall(r"def triton_\w+?_fused_(\w+)\(", module))
    assert len(names) == 2
    assert all("max_pool2d" in name for name in names)

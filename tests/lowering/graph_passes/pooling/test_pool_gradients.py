"""Gradients of max pools: each element looks in the windows over it for the one that chose it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_fw_bw_and_get_code

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.torch_features import needs_torch

# size, stride, padding of the windows, and the input's height and width
WINDOWS = [
    (2, 2, 0, (8, 20)),
    (2, 2, 0, (9, 17)),  # the last row and column are in no window
    (2, 2, 1, (8, 16)),
    (3, 2, 1, (16, 16)),
    (3, 2, 1, (7, 17)),
    pytest.param(3, 1, 1, (4, 9), marks=pytest.mark.slow),
    (2, 3, 0, (5, 25)),  # elements between the windows
    ((3, 2), (1, 2), (1, 0), (5, 17)),
    pytest.param(5, 3, 2, (8, 26), marks=pytest.mark.slow),
    (1, 2, 0, (6, 17)),
]


def pool(*settings: Any, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """A max pool whose results have gradients that differ."""
    return lambda x: F.max_pool2d(x * 2, *settings, **options).sin()


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(("size", "stride", "padding", "shape"), WINDOWS)
def test_gradients_reach_what_was_chosen(size: Any, stride: Any, padding: Any, shape: Any) -> None:
    check(pool(size, stride, padding), leaf(2, 3, *shape), backward=True)


@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 2, 0)])
def test_windows_that_reach_beyond_the_end(size: int, stride: int, padding: int) -> None:
    check(pool(size, stride, padding, ceil_mode=True), leaf(1, 2, 5, 18), backward=True)


@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        (torch.float16, (2, 2, 1)),
        (torch.bfloat16, (2, 2, 1)),
        (torch.float64, (2, 1, 0)),
        *(
            pytest.param(dtype, (3, 2, 1), marks=pytest.mark.slow)
            for dtype in (torch.float16, torch.bfloat16, torch.float64)
        ),
    ],
    ids=str,
)
def test_values_of_any_type(dtype: torch.dtype, settings: tuple[int, ...]) -> None:
    check(pool(*settings), leaf(2, 3, 8, 16, dtype=dtype), backward=True)


@pytest.mark.slow
def test_of_equal_elements_the_first_one_gets_the_gradient() -> None:
    check(pool(3, 2, 1), torch.zeros(1, 2, 6, 16, requires_grad=True), backward=True)


@pytest.mark.slow
def test_of_several_nans_the_one_that_was_chosen_gets_the_gradient() -> None:
    x = torch.randn(1, 2, 8, 16)
    x[0, 0, 2:5, 2:4] = float("nan")
    check(lambda x: F.max_pool2d(x, 3, 2, 1).nan_to_num(1.0) * 2, x.requires_grad_(), backward=True)


@pytest.mark.slow
def test_channels_last() -> None:
    check(pool(3, 2, 1), torch.randn(2, 8, 8, 16).to(memory_format=torch.channels_last).requires_grad_(), backward=True)


@pytest.mark.slow
def test_images_without_a_batch() -> None:
    check(pool(3, 2, 1), leaf(4, 8, 16), backward=True)


@pytest.mark.slow
def test_the_positions_may_be_results_themselves() -> None:
    check(lambda x: F.max_pool2d(x.sin(), 3, 2, 1, return_indices=True), leaf(2, 3, 8, 16), backward=True)


@pytest.mark.slow
def test_nothing_is_added_at_addresses_that_the_data_say() -> None:
    x = torch.randn(2, 4, 16, 16, device="npu", requires_grad=True)
    _, modules = run_fw_bw_and_get_code(lambda: torch.compile(pool(3, 2, 1))(x))
    assert len(modules) == 2
    assert not any("tl.atomic_add" in module for module in modules)


@pytest.mark.parametrize("settings", [(3, 2, 1, 2), (5, 1, 2)], ids=["dilation", "many windows"])
def test_what_the_pass_leaves_alone_is_right_too(settings: tuple[int, ...]) -> None:
    check(pool(*settings), leaf(2, 2, 10, 10), backward=True)


@pytest.mark.slow
@needs_torch("2.13", "adds nothing at addresses: each element of the input loads the choices of the windows over it")
def test_the_pass_can_be_switched_off() -> None:
    x = torch.randn(2, 4, 16, 16, device="npu", requires_grad=True)
    with config.patch(graph_passes="none"):
        _, modules = run_fw_bw_and_get_code(lambda: torch.compile(pool(3, 2, 1))(x))
    assert "tl.atomic_add" in modules[1]

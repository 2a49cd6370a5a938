"""Gradients of average pools whose last windows end beyond the padding; stock Inductor divides by whole windows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check


def pools(x: torch.Tensor, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ragged = {"padding": 1, "ceil_mode": True}
    return (
        F.avg_pool1d(x[0], 3, 2, **ragged).square(),
        F.avg_pool2d(x, 3, 2, **ragged).square(),
        F.avg_pool2d(x, (3, 2), (2, 3), ceil_mode=True),
        F.avg_pool2d(x, 3, 2, count_include_pad=False, **ragged),
        F.avg_pool2d(x, 3, 2, divisor_override=5, **ragged),
        F.avg_pool3d(volume, 2, 2, ceil_mode=True).square(),
    )


@pytest.mark.slow
def test_gradients_of_ragged_windows() -> None:
    for dynamic in (False, True):
        x, volume = torch.randn(2, 3, 8, 6, requires_grad=True), torch.randn(1, 2, 3, 5, 4, requires_grad=True)
        check(pools, x, volume, backward=True, dynamic=dynamic)

"""Parts of a reduction begin where rows do: a tile goes along the innermost axis, with sizes that are known or not."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

PROGRAMS = {
    "slice of columns": (lambda x: x[:, :228].sum(), (1009, 457)),
    "loss of columns": (lambda x: F.mse_loss(x[:, 1:], x[:, :-1]), (1009, 457)),
    "largest inside": (lambda x: x[:, :, 3:-3, 3:-3].amax(), (3, 3, 131, 137)),
    "product of signs": (lambda x: x[:, 1:].sign().prod(), (509, 457)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (15, 16, 56, 56)),
    "statistics of channels": (lambda x: torch.var_mean(x, (0, 2, 3)), (32, 4, 61, 67)),
    "sum over batch and length": (lambda x: x.abs().sum((0, 2)), (45, 3, 3001)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_tiles_go_along_rows(name: str, dynamic: bool) -> None:
    fn, shape = PROGRAMS[name]
    torch._dynamo.reset()
    x = torch.randn(shape)
    with config.patch(force_disable_caches=True):
        results, (code, *_) = run_and_get_code(torch.compile(fn, dynamic=dynamic), x.npu())
    torch.testing.assert_close(results, fn(x), check_device=False, rtol=1e-5, atol=1e-5)
    assert not re.search(r"one index at a time:.*\br0", code)


@pytest.mark.parametrize("shape", [(1, 3, 101, 99), (2, 4, 113, 113), (3, 5, 99, 101), (7, 2, 40, 1000)])
def test_parts_that_end_behind_the_tensor_have_no_elements(shape: tuple[int, ...]) -> None:
    """Of three images in eight parts, five have none."""
    torch._dynamo.reset()
    x = torch.randn(shape) * 2 + 1
    for fn in (lambda x: torch.var_mean(x, (0, 2, 3)), lambda x: x[..., 1:].amax((0, 2, 3))):
        result = torch.compile(fn, dynamic=True)(x.npu())
        torch.testing.assert_close(result, fn(x), check_device=False)

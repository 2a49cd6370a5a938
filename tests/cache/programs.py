"""Small programs, and how many of their kernels came from the cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._dynamo.utils import counters

from inductor_npu import config
from inductor_npu.cache import kernels
from tests.cache.conftest import forget


def run(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, **options: object) -> dict[str, int]:
    """Compiles `function`, compares its results with eager, and returns how kernels were got."""
    forget()
    expected = function(*inputs)
    actual = torch.compile(function, **options)(*(value.to("npu") for value in inputs))
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
    return dict(counters[kernels.COUNTERS])


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) * 2


X = torch.linspace(-3, 3, 40 * 33).reshape(40, 33)


def must_hit(function: Callable[..., torch.Tensor] = softmax) -> str:
    """What a compilation says that may not compile; "" if it need not."""
    with config.patch(cache="must-hit"):
        try:
            run(function, X)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            return str(error)
    return ""

"""Products of eight-bit floats: the library's on every chip that is known, with the reason."""

from __future__ import annotations

import pytest
import torch

import inductor_npu
from tests.compile.helpers import check, to_npu


def multiply(left: torch.Tensor, right: torch.Tensor, scale: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch._scaled_mm(left, right, scale, other, out_dtype=torch.bfloat16))


@pytest.mark.parametrize("scales", [((), ()), ((32, 1), (1, 48))], ids=["one", "rows and columns"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_the_library_multiplies_scaled_matrices(dtype: torch.dtype, scales: tuple[tuple[int, ...], ...]) -> None:
    right = torch.randn(48, 64).to(torch.float8_e4m3fn).t()
    inputs = (torch.randn(32, 64).to(dtype), right, *(torch.rand(shape) + 0.5 for shape in scales))
    check(multiply, *inputs)
    explained = inductor_npu.explain(lambda *operands: multiply(*operands), *map(to_npu, inputs))
    (call,) = explained.library_calls
    assert (call.operator, call.reason) == ("extern_kernels._scaled_mm", f"kernels for Ascend910B3 load no {dtype}")

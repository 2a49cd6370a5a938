"""Constants in the text of a kernel: a literal where Triton gives it the dtype of the constant, a value elsewhere."""

from __future__ import annotations

import math

import pytest
import torch

from inductor_npu.codegen.emit.operands import literal_of
from tests.compile.helpers import check, code_of, to_npu


@pytest.mark.parametrize(
    ("number", "dtype", "literal"),
    [
        (2.5, torch.float32, "2.5"),
        (-1e-05, torch.float32, "-1e-05"),
        (768, torch.float32, "768.0"),
        (0.0, torch.float32, "0.0"),
        (-(2**31), torch.int32, "-2147483648"),
        pytest.param(-0.0, torch.float32, None, id="Triton takes -0.0 for 0"),
        pytest.param(1e-40, torch.float32, None, id="subnormal: Triton takes fp64"),
        pytest.param(1e39, torch.float32, None, id="beyond fp32"),
        pytest.param(math.inf, torch.float32, None, id="infinity is no literal"),
        pytest.param(math.nan, torch.float32, None, id="NaN is no literal"),
        pytest.param(2**24 + 1, torch.float32, None, id="an integer that fp32 rounds"),
        pytest.param(2**31, torch.int32, None, id="beyond int32"),
        pytest.param(True, torch.int32, None, id="a truth value"),
        pytest.param(0.1, torch.float64, None, id="fp64: a literal is one of fp32"),
        pytest.param(2, torch.int64, None, id="int64: a literal is one of int32"),
    ],
)
def test_literals(number: float, dtype: torch.dtype, literal: str | None) -> None:
    assert literal_of(number, dtype) == literal


def test_constants_beside_values_of_their_dtype_are_literals() -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2.5, torch.where(x > 0.25, 1.5, x), x.mean(-1) / 3.0, n + 7

    inputs = torch.randn(5, 768), torch.arange(9, dtype=torch.int32)
    check(fn, *inputs)
    source = "\n".join(code_of(fn, *map(to_npu, inputs)))
    for text in ("* 2.5", "> 0.25", "1.5, ", "/ 3.0", "/ 768.0", "+ 7"):
        assert text in source
    assert "tl.full([], 2.5" not in source, "a constant whose literal is written everywhere has no name"


def test_constants_that_no_literal_stands_for_keep_their_dtype() -> None:
    def fn(x: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1e-40, x * -0.0, x + math.inf, d * 0.1

    check(fn, torch.tensor([0.0, -1.0, 1e-39]), torch.randn(7, dtype=torch.float64))

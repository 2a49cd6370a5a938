"""The cost model counts the passes of an operator as Ascend's compiler makes them."""

from __future__ import annotations

import pytest

from corpus.passes import OPERATORS, passes
from inductor_npu.tiling.cost import PASSES

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]


@pytest.mark.parametrize("operator", ["erf", "sigmoid", "remainder"])
def test_passes_of_an_operator_are_those_of_the_compiled_kernel(operator: str) -> None:
    assert passes({operator: OPERATORS[operator]})[operator] == pytest.approx(PASSES[operator], rel=0.25)

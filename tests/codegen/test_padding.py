"""What stands beyond the end of a row, followed from the load to the reduction."""

from __future__ import annotations

import math

import pytest
import torch
from torch._inductor.codegen.triton import TritonCSEVariable
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.padding import Paddings


def variable(name: str) -> TritonCSEVariable:
    return TritonCSEVariable(name, ValueRanges.unknown(), torch.float32, ("XBLOCK", "R0_BLOCK"))


def loaded(paddings: Paddings, name: str) -> tuple[TritonCSEVariable, object]:
    line = paddings.load(f"{name} = tl.load(p, mask)")
    value = variable(name)
    paddings.loaded(value)
    return value, line


def test_the_first_reduction_chooses_the_filling_of_a_load() -> None:
    paddings = Paddings()
    x, line = loaded(paddings, "tmp0")
    assert paddings.fill(x, -math.inf)
    assert line() == 'tmp0 = tl.load(p, mask, other=float("-inf"))'
    assert not paddings.fill(x, 0.0)


def test_a_load_that_no_reduction_wants_stays_as_it_is() -> None:
    _, line = loaded(Paddings(), "tmp0")
    assert line() == "tmp0 = tl.load(p, mask)"


def test_a_sum_of_squares_fills_with_zero() -> None:
    paddings = Paddings()
    x, line = loaded(paddings, "tmp0")
    square = variable("tmp1")
    paddings.computed("mul", (x, x), square)
    assert paddings.fill(square, 0.0)
    assert line().endswith("other=0)")


def test_the_sum_of_a_softmax_needs_no_selection() -> None:
    paddings = Paddings()
    x, _ = loaded(paddings, "tmp0")
    largest, distance, power = variable("tmp1"), variable("tmp2"), variable("tmp3")
    assert paddings.fill(x, -math.inf)
    paddings.is_maximum(largest, x)
    paddings.computed("sub", (x, largest), distance)
    paddings.computed("exp", (distance,), power)
    assert paddings.fill(power, 0.0)


def test_minus_infinity_less_something_else_may_be_nan() -> None:
    paddings = Paddings()
    x, _ = loaded(paddings, "tmp0")
    other, distance, power = variable("tmp1"), variable("tmp2"), variable("tmp3")
    assert paddings.fill(x, -math.inf)
    paddings.computed("sub", (x, other), distance)
    paddings.computed("exp", (distance,), power)
    assert not paddings.fill(power, 0.0)


@pytest.mark.parametrize("extreme", [torch.iinfo(torch.int64).max, torch.iinfo(torch.int64).min])
def test_whole_numbers_that_are_no_floats_are_selected_afterwards(extreme: int) -> None:
    paddings = Paddings()
    x, line = loaded(paddings, "tmp0")
    assert not paddings.fill(x, extreme)
    assert line() == "tmp0 = tl.load(p, mask)"

"""What stands beyond the end of a row, followed from the load to the reduction."""

from __future__ import annotations

import math

import pytest
import torch
from torch._inductor.codegen.triton import TritonCSEVariable
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.masked_lanes import Paddings


def variable(name: str, dtype: torch.dtype = torch.float32) -> TritonCSEVariable:
    return TritonCSEVariable(name, ValueRanges.unknown(), dtype, ("XBLOCK", "R0_BLOCK"))


def loaded(paddings: Paddings, name: str, dtype: torch.dtype = torch.float32) -> tuple[TritonCSEVariable, object]:
    line = paddings.load(f"{name} = tl.load(p, mask)")
    value = variable(name, dtype)
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


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_no_whole_number_is_infinite(dtype: torch.dtype) -> None:
    paddings = Paddings()
    x, line = loaded(paddings, "tmp0", dtype)
    number, power = variable("tmp1"), variable("tmp2")
    paddings.computed("to_dtype", (x, torch.float32), number)
    paddings.computed("exp", (number,), power)
    assert not paddings.fill(power, 0.0)
    assert line() == "tmp0 = tl.load(p, mask)"
    assert paddings.fill(power, 1.0)


def test_what_wraps_is_selected_afterwards() -> None:
    """1 - 2 is 255 in uint8."""
    paddings = Paddings()
    x, _ = loaded(paddings, "tmp0", torch.uint8)
    difference, number, result = variable("tmp1", torch.uint8), variable("tmp2"), variable("tmp3")
    paddings.computed("sub", (x, 2), difference)
    paddings.computed("to_dtype", (difference, torch.float32), number)
    paddings.computed("add", (number, 2.0), result)
    assert not paddings.fill(result, 1.0)


def test_what_is_rounded_is_selected_afterwards() -> None:
    """1e8 + 1 is 1e8 in float32."""
    paddings = Paddings()
    x, _ = loaded(paddings, "tmp0")
    total, result = variable("tmp1"), variable("tmp2")
    paddings.computed("add", (x, 1e8), total)
    paddings.computed("sub", (total, 1e8), result)
    assert not paddings.fill(result, 1.0)
    assert paddings.fill(result, 0.0)

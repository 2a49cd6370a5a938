"""What stands beyond the end of a row, followed from the load to the reduction."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.masked_lanes import MaskedLanes
from inductor_npu.codegen.emit.values import TileValue


def variable(name: str, dtype: torch.dtype = torch.float32) -> TileValue:
    return TileValue(name, ValueRanges.unknown(), dtype, ("XBLOCK", "R0_BLOCK"))


def loaded(masked_lanes: MaskedLanes, name: str, dtype: torch.dtype = torch.float32) -> tuple[TileValue, object]:
    line = masked_lanes.load(f"{name} = tl.load(p, mask)")
    value = variable(name, dtype)
    masked_lanes.loaded(value)
    return value, line


def test_the_first_reduction_chooses_the_filling_of_a_load() -> None:
    masked_lanes = MaskedLanes()
    x, line = loaded(masked_lanes, "tmp0")
    assert masked_lanes.fill(x, -math.inf)
    assert line() == 'tmp0 = tl.load(p, mask, other=float("-inf"))'
    assert not masked_lanes.fill(x, 0.0)


def test_a_load_that_no_reduction_wants_stays_as_it_is() -> None:
    _, line = loaded(MaskedLanes(), "tmp0")
    assert line() == "tmp0 = tl.load(p, mask)"


def test_a_sum_of_squares_fills_with_zero() -> None:
    masked_lanes = MaskedLanes()
    x, line = loaded(masked_lanes, "tmp0")
    square = variable("tmp1")
    masked_lanes.computed("mul", (x, x), square)
    assert masked_lanes.fill(square, 0.0)
    assert line().endswith("other=0)")


def test_the_sum_of_a_softmax_needs_no_selection() -> None:
    masked_lanes = MaskedLanes()
    x, _ = loaded(masked_lanes, "tmp0")
    largest, distance, power = variable("tmp1"), variable("tmp2"), variable("tmp3")
    assert masked_lanes.fill(x, -math.inf)
    largest.maximum_of = x
    masked_lanes.computed("sub", (x, largest), distance)
    masked_lanes.computed("exp", (distance,), power)
    assert masked_lanes.fill(power, 0.0)


def test_minus_infinity_less_something_else_may_be_nan() -> None:
    masked_lanes = MaskedLanes()
    x, _ = loaded(masked_lanes, "tmp0")
    other, distance, power = variable("tmp1"), variable("tmp2"), variable("tmp3")
    assert masked_lanes.fill(x, -math.inf)
    masked_lanes.computed("sub", (x, other), distance)
    masked_lanes.computed("exp", (distance,), power)
    assert not masked_lanes.fill(power, 0.0)


@pytest.mark.parametrize("extreme", [torch.iinfo(torch.int64).max, torch.iinfo(torch.int64).min])
def test_whole_numbers_that_are_no_floats_are_selected_afterwards(extreme: int) -> None:
    masked_lanes = MaskedLanes()
    x, line = loaded(masked_lanes, "tmp0")
    assert not masked_lanes.fill(x, extreme)
    assert line() == "tmp0 = tl.load(p, mask)"


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_no_whole_number_is_infinite(dtype: torch.dtype) -> None:
    masked_lanes = MaskedLanes()
    x, line = loaded(masked_lanes, "tmp0", dtype)
    number, power = variable("tmp1"), variable("tmp2")
    masked_lanes.computed("to_dtype", (x, torch.float32), number)
    masked_lanes.computed("exp", (number,), power)
    assert not masked_lanes.fill(power, 0.0)
    assert line() == "tmp0 = tl.load(p, mask)"
    assert masked_lanes.fill(power, 1.0)


def test_what_wraps_is_selected_afterwards() -> None:
    """1 - 2 is 255 in uint8."""
    masked_lanes = MaskedLanes()
    x, _ = loaded(masked_lanes, "tmp0", torch.uint8)
    difference, number, result = variable("tmp1", torch.uint8), variable("tmp2"), variable("tmp3")
    masked_lanes.computed("sub", (x, 2), difference)
    masked_lanes.computed("to_dtype", (difference, torch.float32), number)
    masked_lanes.computed("add", (number, 2.0), result)
    assert not masked_lanes.fill(result, 1.0)


def test_what_is_rounded_is_selected_afterwards() -> None:
    """1e8 + 1 is 1e8 in float32."""
    masked_lanes = MaskedLanes()
    x, _ = loaded(masked_lanes, "tmp0")
    total, result = variable("tmp1"), variable("tmp2")
    masked_lanes.computed("add", (x, 1e8), total)
    masked_lanes.computed("sub", (total, 1e8), result)
    assert not masked_lanes.fill(result, 1.0)
    assert masked_lanes.fill(result, 0.0)

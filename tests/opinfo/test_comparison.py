"""What counts as right: no more error than eager's own in that dtype allows."""

from __future__ import annotations

import pytest
import torch

from opinfo.comparison import difference, statistical_difference

WIDE = torch.linspace(1, 2, 101, dtype=torch.float64)
EAGER = WIDE.float()


def test_eager_itself_is_right() -> None:
    assert difference([EAGER, 1, None], [EAGER, 1, None], [WIDE, 1, None]) == ""


def test_better_than_eager_is_right() -> None:
    assert difference(WIDE.float(), EAGER * (1 + 1e-3), WIDE) == ""


def test_an_error_that_eager_does_not_make_is_wrong() -> None:
    ours = EAGER.clone()
    ours[7] += 1e-3
    assert difference(ours, EAGER, WIDE).startswith("1 of 101 elements, [7]")


def test_an_error_as_large_as_eagers_elsewhere_in_the_tensor_is_right() -> None:
    ours, eager = EAGER.clone(), EAGER.clone()
    ours[7] += 1e-3
    eager[90] += 1e-3
    assert difference(ours, eager, WIDE) == ""


def test_a_large_error_of_eager_excuses_none_that_is_much_larger() -> None:
    ours, eager = EAGER.clone(), EAGER.clone()
    ours[7] += 2e-2
    eager[90] += 1e-3
    assert difference(ours, eager, WIDE) != ""


def test_large_elements_do_not_excuse_small_ones() -> None:
    """Half precision is off by half a unit at 60000; an element of 1 may not be."""
    wide = torch.tensor([1.0] * 9 + [60001.0], dtype=torch.float64)
    ours = wide.half()
    ours[0] = 1.1
    assert difference(ours, wide.half(), wide).startswith("1 of 10 elements, [0]")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_where_there_is_none_is_wrong(value: float) -> None:
    eager = EAGER.clone()
    eager[3] = value
    wide = WIDE.clone()
    wide[3] = value
    assert difference(eager.clone(), eager, wide) == ""
    assert difference(EAGER, eager, wide) != "" and difference(eager, EAGER, WIDE) != ""


def test_overflow_of_a_half_type_is_right_as_eager_has_it() -> None:
    wide = torch.tensor([65520.0 * 2, 1.0], dtype=torch.float64)
    eager = torch.tensor([float("inf"), 1.0], dtype=torch.float16)
    assert difference(eager.clone(), eager, wide) == ""


def test_integers_are_equal_to_eagers() -> None:
    indices = torch.arange(5)
    assert difference(indices, indices, indices) == ""
    assert difference(indices + 1, indices, indices) != ""


def test_a_number_without_axes_is_compared() -> None:
    assert difference(torch.tensor(2), torch.tensor(1), None) == "1 of 1 elements, []: 2 instead of 1 (eager 1)"


def test_shape_and_dtype_are_eagers() -> None:
    assert difference(EAGER[:1], EAGER, WIDE) == "shape [1] instead of [101]"
    assert difference(WIDE, EAGER, WIDE) == "torch.float64 instead of torch.float32"


def test_complex_numbers() -> None:
    wide = torch.complex(WIDE, -WIDE)
    eager = wide.to(torch.complex64)
    assert difference(eager.conj().conj(), eager, wide) == ""
    assert difference(eager.conj(), eager, wide).startswith("101 of 101 elements")


def test_random_results_are_compared_by_their_means() -> None:
    one, other = torch.rand(1000), torch.rand(1000)
    assert statistical_difference(one, other) == ""
    assert statistical_difference(one + 0.2, other).startswith("mean")
    assert statistical_difference(one[:10], other) == "shape [10] instead of [1000]"

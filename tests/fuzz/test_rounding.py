"""Eager that rounds otherwise: what is rounded becomes a neighbour, what is exact stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuzz.case import Case, Input
from fuzz.check import check
from fuzz.rounding import RoundsOtherwise


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_what_is_rounded_is_itself_or_a_neighbour(dtype: torch.dtype) -> None:
    ones = torch.ones(100, dtype=dtype)
    with RoundsOtherwise(0):
        thirds = ones / 3
    bits = thirds.view(torch.int32 if dtype == torch.float32 else torch.int16)
    assert (bits - bits.median()).unique().tolist() == [-1, 0, 1]


def test_integers_are_rounded_where_they_become_fractions() -> None:
    with RoundsOtherwise(0):
        thirds = torch.ones(100, dtype=torch.int64) / 3
    assert thirds.dtype == torch.float32 and len(thirds.unique()) == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 3 - 1,
        lambda x: x.t()[1:].clone().fill_(0.5),
        lambda x: torch.sort(x)[0],
        lambda x: x.sum(0) > 2,
        lambda x: x.half().float(),
        lambda x: x.double() / 3,
        lambda x: x.to(torch.float8_e4m3fn).float(),  # which is asked for, and right in one way
        lambda x: torch.view_as_complex(x.reshape(-1, 2)) * 2,
    ],
)
def test_what_is_exact_stays(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    numbers = torch.arange(100.0).reshape(10, 10)
    with RoundsOtherwise(0):
        otherwise = function(numbers)
    assert torch.equal(otherwise, function(numbers))


def test_both_parts_of_complex_numbers_are_rounded() -> None:
    ones = torch.ones(100)
    with RoundsOtherwise(0):
        thirds = torch.complex(ones, -ones) / 3
    assert thirds.real.unique().numel() == thirds.imag.unique().numel() == 3


def test_what_is_written_in_place_is_rounded_once() -> None:
    written = torch.ones(100)
    with RoundsOtherwise(0):
        written.div_(3)
    assert len(written.unique()) == 3


def test_gradients_are_rounded_too() -> None:
    numbers = torch.linspace(1, 2, 100).requires_grad_()
    gradients = []
    for seed in (0, 1):
        with RoundsOtherwise(seed):
            gradients.extend(torch.autograd.grad(numbers.sin().sum(), numbers))
    assert 0 < (gradients[0] - gradients[1]).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("result", "is_seen"),
    [
        ("F.layer_norm(torch.sigmoid(x0 * 0 + 1), (30,))", False),
        ("F.layer_norm(torch.sigmoid(x0 * 0), (30,))", True),  # one half, which nothing rounds
        ("F.layer_norm(x0, (30,))", True),
        ("x0.sin()", True),
    ],
)
def test_an_error_is_right_only_where_another_rounding_makes_one_as_large(
    result: str, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean of equal numbers that is off by one unit of the last place, times `rsqrt(1e-5)`."""
    case = Case((Input("float32", (30,), values="normal"),), (f"return ({result},)",))
    program = case.program()
    monkeypatch.setattr(torch, "compile", lambda _program, dynamic: lambda x: (program(x)[0] - 2e-5,))
    assert check(case).startswith("results: ") == is_seen

"""What counts as right for a model: near to eager, as near to float64 as eager, or as far as roundings move eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from world.case import Built
from world.judging import Judge
from world.results import Results, call, collected

X = torch.linspace(-2, 2, 12).view(4, 3)


class Network(nn.Module):
    """A function with a weight."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.ones(3)), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.weight)


def judge_of(function: Callable[[torch.Tensor], torch.Tensor], train: bool = False) -> Judge:
    def twice(built: Built, seed: int) -> tuple[Results, Results]:
        one, two = (collected(call(built.model, built, train, seed)[0], built.model) for _ in "12")
        return one, two

    return Judge(Built(Network(function), (X,)), twice)


def test_what_is_near_to_eager_is_right() -> None:
    judge = judge_of(torch.sin)
    assert judge.why_wrong({"result": X.sin() * (1 + 1e-7)}) == ""
    assert judge.how == "eager"


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_a_wrong_element_is_found_whatever_the_scale(scale: float) -> None:
    result = X.sin() * scale
    result[0, 0] *= 1.01
    assert "1 of 12 elements" in judge_of(lambda x: x.sin() * scale).why_wrong({"result": result})


def test_what_cancels_may_lose_what_eager_loses() -> None:
    judge = judge_of(lambda x: (x + 1e4) - 1e4)  # in float32 off by 5e-4
    assert judge.why_wrong({"result": X.clone()}) == ""
    assert judge.how == "float64"
    assert judge.why_wrong({"result": X + 0.1})


def test_what_cancels_to_zero_has_no_unit_of_its_own() -> None:
    judge = judge_of(lambda x: (x.sin() - x.sin().mean()).mean().reshape(1))
    assert judge.why_wrong({"result": torch.tensor([3e-7])}) == ""
    assert judge.why_wrong({"result": torch.tensor([1e-3])})


def test_random_elements_that_depend_on_each_other_move_as_those_of_other_draws() -> None:
    judge = judge_of(lambda x: x + torch.randn(()))
    judge.random = True
    assert judge.why_wrong({"result": X + 0.1}) == ""
    assert judge.how == "statistics"
    assert "mean" in judge.why_wrong({"result": X + 40})


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_float64_run_without_numbers_is_no_measure(odd: float) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        result = (x * 1e4).sin()  # in float32 off by 1e-3
        return result if x.dtype == torch.float32 else torch.where(X > 1, odd, result)

    judge = judge_of(function)
    near, wrong = (judge.eager[0]["result"] + offset for offset in (1e-4, 0.1))
    assert judge.why_wrong({"result": near}) == ""
    assert judge.how == "rounding"
    assert judge.why_wrong({"result": wrong})


def test_where_a_rounding_decides_both_choices_are_right() -> None:
    tied = torch.tensor([[1.0, 1.0, 1.0]])

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.ones(99) * x[0, 0], x.argmax(-1).to(x.dtype)])

    judge = judge_of(chosen)
    judge.built.args = (tied,)
    other, wrong = (judge.eager[0]["result"].clone() for _ in "12")
    other[-1] += 1.0
    wrong[0] += 0.1
    assert judge.why_wrong({"result": other}) == ""
    assert judge.how == "rounding"
    assert judge.why_wrong({"result": wrong})


def test_gradients_shapes_and_names_are_compared() -> None:
    judge = judge_of(torch.sin, train=True)
    right = judge.eager[0]
    assert set(right) == {"result", "grad weight"}
    assert judge.why_wrong(right) == ""
    assert judge.why_wrong({**right, "grad weight": -right["grad weight"]}).startswith("grad weight")
    assert "shape" in judge.why_wrong({**right, "result": right["result"].flatten()})
    assert judge.why_wrong({"result": right["result"]}) == "other results: grad weight"

"""Compiled operators over all of float32: within two units of the last place of the exact result, or the bound that
docs/precision.md names.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.precision.operators import AS_EAGER, BINARY, BOUND, EXCEPT, UNARY, WIDER, errors, inputs

pytestmark = pytest.mark.slow


def arguments_of(name: str) -> list[np.ndarray]:
    return inputs(1 if name in UNARY else 2, step=65_521, count=20_000)


@pytest.mark.parametrize("name", [name for name in UNARY | BINARY if name not in AS_EAGER and name not in EXCEPT])
def test_error(name: str) -> None:
    arguments = arguments_of(name)
    found = errors((UNARY | BINARY)[name], arguments)
    worst = int(np.argmax(found))
    where = ", ".join(repr(argument[worst]) for argument in arguments)
    assert found[worst] <= WIDER.get(name, BOUND), f"{name}({where}) is off by {found[worst]} ulp"


@pytest.mark.parametrize("name", AS_EAGER)
def test_decompositions_lose_no_more_than_eager(name: str) -> None:
    arguments = arguments_of(name)
    ours, eager = (errors((UNARY | BINARY)[name], arguments, device) for device in ("npu", "cpu"))
    assert np.mean(ours > BOUND) <= np.mean(eager > BOUND) + 0.01


def test_log_gamma_has_a_small_absolute_error_where_it_is_small() -> None:
    (x,) = arguments_of("lgamma")
    exact = torch.lgamma(torch.from_numpy(x).double()).numpy()
    got = torch.compile(torch.lgamma)(torch.from_numpy(x).to("npu")).cpu().numpy()
    ordinary = np.isfinite(exact) & (x > 0) & (exact < 1e38)
    scale = np.maximum(1.0, np.abs(exact[ordinary]))
    assert np.all(np.abs(got[ordinary] - exact[ordinary]) <= 1.2e-6 * scale)
    assert np.array_equal(np.isnan(got), np.isnan(exact))


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact_by_divisors_that_are_not_denormal(name: str) -> None:
    left, right = arguments_of(name)
    normal = np.abs(right) >= np.finfo(np.float32).tiny * 4
    found = errors(BINARY[name], [left[normal], right[normal]])
    assert found.max() <= BOUND


def test_floor_division_is_that_of_the_rounded_quotient() -> None:
    left, right = arguments_of("floor_divide")
    with np.errstate(all="ignore"):
        quotient = left / right
        ordinary = (np.abs(quotient) > 1e-30) & (np.abs(quotient) < 2**23) & np.isfinite(left)
    left, right = left[ordinary], right[ordinary]
    got = torch.compile(torch.floor_divide)(torch.from_numpy(left).to("npu"), torch.from_numpy(right).to("npu"))
    assert np.array_equal(got.cpu().numpy(), np.floor(quotient[ordinary]))

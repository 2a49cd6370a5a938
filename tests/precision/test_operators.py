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


def test_log_gamma_of_positive_numbers_keeps_its_digits_around_its_zeros() -> None:
    (x,) = arguments_of("lgamma")
    near_zeros = np.concatenate([zero + np.linspace(-0.3, 0.3, 20_001, dtype=np.float32) for zero in (1, 2)])
    x = np.concatenate([x[~(x < 0)], near_zeros, np.nextafter(np.float32([1, 1, 2, 2]), np.float32([0, 2, 1, 3]))])
    found = errors(torch.lgamma, [x])
    assert found.max() <= 2.5, f"lgamma({x[np.argmax(found)]!r}) is off by {found.max()} ulp"


def test_log_gamma_of_negative_numbers_loses_digits_around_its_zeros_only() -> None:
    (x,) = arguments_of("lgamma")
    x = x[x < 0]
    exact = torch.lgamma(torch.from_numpy(x).double()).numpy()
    got = torch.compile(torch.lgamma)(torch.from_numpy(x).to("npu")).cpu().numpy()
    ordinary = np.isfinite(exact) & (np.abs(exact) < np.finfo(np.float32).max)
    assert np.array_equal(got[~ordinary], exact[~ordinary].astype(np.float32), equal_nan=True)
    unit = np.spacing(np.maximum(np.abs(exact[ordinary]), 1.0).astype(np.float32))
    assert np.all(np.abs(got[ordinary] - exact[ordinary]) <= 8 * unit)


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

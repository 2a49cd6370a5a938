"""`triton.language`'s mathematics: within a few units in the last place of the exact value, special values included."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch

from .support import assert_same, assert_within_ulps, dtypes, evaluate, evaluate_all, samples

PRECISE = (torch.float32, torch.float64)
INFINITIES = [math.inf, -math.inf, math.nan]


def points(low: float, high: float, dtype: torch.dtype, extra: list[float] | None = None) -> torch.Tensor:
    """Values in [low, high]: evenly spread, dense around zero, and the extra ones."""
    spread = torch.linspace(low, high, 300, dtype=torch.float64)
    near_zero = torch.tensor([sign * 10.0**-k for k in range(1, 9) for sign in (1, -1)], dtype=torch.float64)
    near_zero = near_zero[(near_zero >= low) & (near_zero <= high)]
    return torch.cat([spread, near_zero, torch.tensor(extra or [], dtype=torch.float64)]).to(dtype)


def longdouble(function: Callable, x: torch.Tensor) -> np.ndarray:
    """The function in numpy's widest type: 64 bits of mantissa on x86-64, wider than every dtype under test."""
    with np.errstate(all="ignore"):
        return function(x.numpy().astype(np.longdouble))


def erf(x: np.ndarray) -> np.ndarray:
    with mpmath.workdps(25):
        return np.array([np.longdouble(str(mpmath.erf(mpmath.mpf(float(value))))) for value in x])


FUNCTIONS = {
    "tl.exp(x)": (np.exp, -100, 88, [0.0, -0.0, 89.5, -120.0, *INFINITIES]),
    "tl.exp2(x)": (np.exp2, -120, 127, [0.0, 1.0, 10.0, 128.0, -200.0, *INFINITIES]),
    "tl.log(x)": (np.log, 1e-30, 1e30, [0.0, 1.0, 0.999, 1.001, -1.0, 1e-40, *INFINITIES]),
    "tl.log2(x)": (np.log2, 1e-30, 1e30, [0.0, 1.0, 2.0, 0.125, 1.001, -1.0, *INFINITIES]),
    "tl.sin(x)": (np.sin, -30, 30, [0.0, 1000.0, 12345.678, *INFINITIES]),
    "tl.cos(x)": (np.cos, -30, 30, [0.0, 1000.0, 12345.678, *INFINITIES]),
    "tl.rsqrt(x)": (lambda x: 1 / np.sqrt(x), 1e-10, 1e10, [1.0, 4.0, math.inf, math.nan, -1.0]),
    "tl.erf(x)": (erf, -5, 5, [0.0, *INFINITIES]),
}


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize("expression", FUNCTIONS)
def test_function(device, expression, dtype):
    reference, low, high, extra = FUNCTIONS[expression]
    x = points(low, high, dtype, extra)
    got = evaluate(device, expression, x, out=dtype)
    assert_within_ulps(got, longdouble(reference, x), 4)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_sine_and_cosine_of_large_numbers(device, dtype):
    """Argument reduction keeps all bits, as for every libm."""
    x = torch.tensor([1e5, 1e6, 3.3e7, 1e10, -1e15, 1e22, 2.0**100, 3e38], dtype=dtype)
    with mpmath.workdps(120):
        sines = [float(mpmath.sin(mpmath.mpf(value))) for value in x.tolist()]
        cosines = [float(mpmath.cos(mpmath.mpf(value))) for value in x.tolist()]
    got = evaluate_all(device, {"tl.sin(x)": dtype, "tl.cos(x)": dtype}, x)
    assert_within_ulps(got["tl.sin(x)"], np.array(sines), 4)
    assert_within_ulps(got["tl.cos(x)"], np.array(cosines), 4)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_square_root_is_correctly_rounded(device, dtype):
    x = samples(dtype)
    assert_same(evaluate(device, "tl.sqrt(x)", x, out=dtype), exact_square_root(x))


def exact_square_root(x: torch.Tensor) -> torch.Tensor:
    """numpy's, which is correctly rounded; torch's may be one unit off."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(x.numpy()))


def test_square_root_and_division_with_ieee_rounding(device):
    x, y = samples(torch.float32, seed=1), samples(torch.float32, seed=2).flip(0)
    got = evaluate_all(device, {"tl.sqrt_rn(x)": torch.float32, "tl.div_rn(x, y)": torch.float32}, x, y)
    assert_same(got["tl.sqrt_rn(x)"], exact_square_root(x))
    assert_same(got["tl.div_rn(x, y)"], x / y)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_floor_and_ceil(device, dtype):
    x = torch.cat([samples(dtype), torch.tensor([2.0**31 + 0.5, -(2.0**40) - 0.5, 0.49999997, 8388609.0]).to(dtype)])
    down, up = evaluate_all(device, {"tl.floor(x)": dtype, "tl.ceil(x)": dtype}, x).values()
    assert_same(down, x.floor())
    assert_same(up, x.ceil())


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_fdiv(device, dtype):
    x, y = samples(dtype, seed=1), samples(dtype, seed=2).flip(0)
    assert_same(evaluate(device, "tl.fdiv(x, y)", x, y, out=dtype), x / y)


@pytest.mark.parametrize("dtype", dtypes(torch.float32))
def test_sigmoid(device, dtype):
    x = points(-80, 80, dtype, INFINITIES)
    expected = longdouble(lambda v: 1 / (1 + np.exp(-v)), x)
    assert_within_ulps(evaluate(device, "tl.sigmoid(x)", x, out=dtype), expected, 6)


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16))
def test_halves_through_float32(device, dtype):
    x = samples(dtype)
    got = evaluate_all(device, {"tl.exp(x.to(tl.float32))": dtype, "tl.log(tl.abs(x.to(tl.float32)))": dtype}, x)
    exponential, logarithm = got.values()
    assert_within_ulps(exponential, x.double().exp(), 0.5001)
    assert_within_ulps(logarithm, x.double().abs().log(), 0.5001)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16))
def test_absolute_value_of_halves(device, dtype):
    x = samples(dtype)
    assert_same(evaluate(device, "tl.abs(x)", x, out=dtype), x.abs())


def test_functions_compose_in_one_kernel(device):
    """GELU written out: the error of the parts does not add up to more than a few units."""
    x = points(-6, 6, torch.float32)
    expected = longdouble(lambda v: 0.5 * v * (1 + erf(v / np.sqrt(np.longdouble(2)))), x)
    got = evaluate(device, "0.5 * x * (1 + tl.erf(x * 0.7071067811865476))", x, out=torch.float32)
    np.testing.assert_allclose(got.double().numpy(), expected.astype(np.float64), rtol=2e-6, atol=3e-7)

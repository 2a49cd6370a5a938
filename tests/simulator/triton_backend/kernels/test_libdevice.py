"""`triton.language.extra.libdevice`: the C library's mathematics under the names that Inductor and users write."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch

from .support import assert_same, assert_within_ulps, dtypes, evaluate, samples

pytestmark = pytest.mark.compiled

PRECISE = (torch.float32, torch.float64)
SPECIAL = [math.inf, -math.inf, math.nan]

# name: (mpmath's function, lowest, highest, further points, units in the last place)
UNARY: dict[str, tuple[Callable, float, float, list[float], float]] = {
    "exp": (mpmath.exp, -80, 80, SPECIAL, 4),
    "exp2": (lambda v: mpmath.mpf(2) ** v, -100, 100, SPECIAL, 4),
    "exp10": (lambda v: mpmath.mpf(10) ** v, -30, 30, SPECIAL, 4),
    "expm1": (mpmath.expm1, -20, 60, [1e-9, -1e-9, *SPECIAL], 4),
    "log": (mpmath.log, 1e-3, 1e6, [1.0001, 0.9999], 4),
    "log2": (lambda v: mpmath.log(v, 2), 1e-3, 1e6, [1.0001, 0.9999], 4),
    "log10": (mpmath.log10, 1e-3, 1e6, [1.0001, 0.9999], 4),
    "log1p": (mpmath.log1p, -0.99, 100, [1e-9, -1e-9], 4),
    "sin": (mpmath.sin, -20, 20, [], 4),
    "cos": (mpmath.cos, -20, 20, [], 4),
    "tan": (mpmath.tan, -20, 20, [], 6),
    "asin": (mpmath.asin, -1, 1, [], 4),
    "acos": (mpmath.acos, -1, 1, [], 4),
    "atan": (mpmath.atan, -50, 50, [], 4),
    "sinh": (mpmath.sinh, -40, 40, [], 4),
    "cosh": (mpmath.cosh, -40, 40, [], 4),
    "tanh": (mpmath.tanh, -10, 10, [1e-5], 4),
    "asinh": (mpmath.asinh, -100, 100, [1e-5], 4),
    "acosh": (mpmath.acosh, 1, 100, [1.0001], 4),
    "atanh": (mpmath.atanh, -0.99, 0.99, [1e-5], 4),
    "sinpi": (lambda v: mpmath.sinpi(v), -4, 4, [], 4),
    "cospi": (lambda v: mpmath.cospi(v), -4, 4, [], 4),
    "sqrt": (mpmath.sqrt, 0, 100, [], 1),
    "rsqrt": (lambda v: 1 / mpmath.sqrt(v), 1e-3, 100, [], 4),
    "cbrt": (lambda v: mpmath.sign(v) * mpmath.cbrt(abs(v)), -100, 100, [], 4),
    "rcbrt": (lambda v: 1 / mpmath.cbrt(v), 1e-3, 100, [], 4),
    "erf": (mpmath.erf, -4, 4, [], 4),
    "erfc": (mpmath.erfc, -4, 4, [], 6),
    "erfcx": (lambda v: mpmath.exp(v * v) * mpmath.erfc(v), -2, 10, [], 12),
    "erfinv": (mpmath.erfinv, -0.99, 0.99, [], 12),
    "erfcinv": (lambda v: mpmath.erfinv(1 - v), 0.02, 1.98, [], 16),
    "normcdf": (mpmath.ncdf, -5, 5, [], 16),
    "normcdfinv": (lambda v: mpmath.sqrt(2) * mpmath.erfinv(2 * v - 1), 0.02, 0.98, [], 16),
    "tgamma": (mpmath.gamma, 0.1, 20, [-0.5, -1.5], 16),
    "cyl_bessel_i0": (lambda v: mpmath.besseli(0, v), -10, 10, [], 12),
    "cyl_bessel_i1": (lambda v: mpmath.besseli(1, v), -10, 10, [], 12),
}

# Functions with zeros in their domain: the error is bounded against the largest value instead of the last place.
ABSOLUTE: dict[str, tuple[Callable, float, float]] = {
    "j0": (lambda v: mpmath.besselj(0, v), -15, 15),
    "j1": (lambda v: mpmath.besselj(1, v), -15, 15),
    "y0": (lambda v: mpmath.bessely(0, v), 0.5, 15),
    "y1": (lambda v: mpmath.bessely(1, v), 0.5, 15),
    "lgamma": (mpmath.loggamma, 0.1, 30),
}

BINARY: dict[str, tuple[Callable, float]] = {
    "pow": (lambda a, b: mpmath.power(abs(a), b), 4),
    "atan2": (mpmath.atan2, 4),
    "hypot": (mpmath.hypot, 4),
}


def exactly(function: Callable, *tensors: torch.Tensor) -> np.ndarray:
    """The function at each point in 40 digits, as numpy's widest type."""

    def value(*row: float) -> np.longdouble:
        if any(not math.isfinite(entry) for entry in row):
            try:
                return np.longdouble(float(function(*map(mpmath.mpf, row))))
            except (ValueError, ZeroDivisionError, OverflowError):
                return np.longdouble(math.nan)
        return np.longdouble(mpmath.nstr(function(*map(mpmath.mpf, row)), 30))

    with mpmath.workdps(40):
        return np.array([value(*row) for row in zip(*(tensor.double().tolist() for tensor in tensors))])


def spread(low: float, high: float, dtype: torch.dtype, extra: list[float]) -> torch.Tensor:
    return torch.cat([torch.linspace(low, high, 61, dtype=torch.float64), torch.tensor(extra).double()]).to(dtype)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name, dtype):
    function, low, high, extra, ulps = UNARY[name]
    x = spread(low, high, dtype, extra)
    x = x.clamp(-0.99, 0.99) if name == "atanh" else x
    assert_within_ulps(evaluate(device, f"libdevice.{name}(x)", x, out=dtype), exactly(function, x), ulps)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize("name", ABSOLUTE)
def test_unary_with_zeros(device, name, dtype):
    function, low, high = ABSOLUTE[name]
    x = spread(low, high, dtype, [])
    got = evaluate(device, f"libdevice.{name}(x)", x, out=dtype)
    expected = exactly(function, x).astype(np.float64)
    scale = np.maximum(1.0, np.abs(expected))
    assert (np.abs(got.double().numpy() - expected) <= 8 * torch.finfo(dtype).eps * scale).all()


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize("name", BINARY)
def test_binary(device, name, dtype):
    function, ulps = BINARY[name]
    x, y = (torch.randn(80, dtype=torch.float64, generator=torch.manual_seed(seed)).to(dtype) * 4 for seed in (1, 2))
    x = x.abs() if name == "pow" else x
    assert_within_ulps(evaluate(device, f"libdevice.{name}(x, y)", x, y, out=dtype), exactly(function, x, y), ulps)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_pow_of_special_numbers(device, dtype):
    """C's table: 0^0 is 1, a negative base needs a whole exponent, and so on."""
    bases = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -8.0, 0.5, *SPECIAL], dtype=dtype)
    exponents = torch.tensor([0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.5, 1 / 3, -3.0, *SPECIAL], dtype=dtype)
    x, y = (grid.flatten() for grid in torch.meshgrid(bases, exponents, indexing="ij"))
    with np.errstate(all="ignore"):
        expected = np.power(x.numpy().astype(np.longdouble), y.numpy().astype(np.longdouble))
    assert_within_ulps(evaluate(device, "libdevice.pow(x, y)", x, y, out=dtype), expected, 2)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_pow_with_an_integer_exponent(device, dtype):
    x = torch.tensor([2.0, -2.0, 0.5, -3.0, 1.5, 0.0], dtype=dtype)
    y = torch.tensor([3, 3, -2, 2, 10, 0], dtype=torch.int32)
    assert_within_ulps(evaluate(device, "libdevice.pow(x, y)", x, y, out=dtype), x.double() ** y.double(), 2)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize(
    ("name", "reference"),
    [("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rint", np.rint), ("nearbyint", np.rint),
     ("abs", np.abs)],
)  # fmt: skip
def test_rounding(device, name, reference, dtype):
    x = torch.cat([samples(dtype), torch.arange(-8, 8, dtype=dtype) + 0.5])
    assert_same(evaluate(device, f"libdevice.{name}(x)", x, out=dtype), torch.from_numpy(reference(x.numpy())))


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_round_moves_ties_away_from_zero(device, dtype):
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 2.0, -3.7, 8388609.0, math.inf], dtype=dtype)
    expected = torch.tensor([1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.0, 2.0, -4.0, 8388609.0, math.inf], dtype=dtype)
    assert_same(evaluate(device, "libdevice.round(x)", x, out=dtype), expected)


@pytest.mark.parametrize("name", ["llrint", "llround"])
@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_rounding_to_int64(device, name, dtype):
    x = torch.tensor([0.4, 1.6, 2.5, -1.6, 1e6, -3.5], dtype=dtype)
    expected = torch.tensor([0, 2, 2, -2, 1000000, -4] if name == "llrint" else [0, 2, 3, -2, 1000000, -4])
    assert_same(evaluate(device, f"libdevice.{name}(x)", x, out=torch.int64), expected)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
@pytest.mark.parametrize(("name", "reference"), [("isnan", np.isnan), ("isinf", np.isinf), ("signbit", np.signbit)])
def test_classification(device, name, reference, dtype):
    x = samples(dtype)
    x = x[~x.isnan()] if name == "signbit" else x
    got = evaluate(device, f"libdevice.{name}(x) != 0", x, out=torch.bool)
    assert torch.equal(got, torch.from_numpy(reference(x.numpy())))


@pytest.mark.parametrize(("name", "dtype"), [("finitef", torch.float32), ("isfinited", torch.float64)])
def test_finite(device, name, dtype):
    x = samples(dtype)
    assert torch.equal(evaluate(device, f"libdevice.{name}(x) != 0", x, out=torch.bool), x.isfinite())


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_remainders(device, dtype):
    """`fmod` truncates the quotient, `remainder` rounds it to the nearest whole number."""
    x, y = samples(dtype, seed=1), samples(dtype, seed=2).flip(0)
    with np.errstate(invalid="ignore"):
        truncated = torch.from_numpy(np.fmod(x.numpy(), y.numpy()))
    assert_same(evaluate(device, "libdevice.fmod(x, y)", x, y, out=dtype), truncated)
    x, y = x[25:], y[25:][: x.numel() - 25]
    finite = y.isfinite() & (y != 0)
    nearest = [math.remainder(a, b) for a, b in zip(x[finite].tolist(), y[finite].tolist())]
    got = evaluate(device, "libdevice.remainder(x, y)", x[finite], y[finite], out=dtype)
    assert_same(got, torch.tensor(nearest, dtype=torch.float64).to(dtype), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_copysign_nextafter_fdim(device, dtype):
    x, y = samples(dtype, seed=1), samples(dtype, seed=2).flip(0)
    x, y = x[~(x.isnan() | y.isnan())], y[~(x.isnan() | y.isnan())]
    assert_same(evaluate(device, "libdevice.copysign(x, y)", x, y, out=dtype), torch.copysign(x, y))
    assert_same(evaluate(device, "libdevice.nextafter(x, y)", x, y, out=dtype), torch.nextafter(x, y))
    expected = torch.where(x > y, x - y, torch.zeros_like(x))
    assert_same(evaluate(device, "libdevice.fdim(x, y)", x, y, out=dtype), expected)


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_exponents(device, dtype):
    x = torch.tensor([1.0, 8.0, 0.3, -100.0, 1e-20, 12345.0], dtype=dtype)
    y = torch.tensor([3, -2, 10, 0, 5, -20], dtype=torch.int32)
    exponent = torch.from_numpy(np.floor(np.log2(np.abs(x.double().numpy()))))
    assert_same(evaluate(device, "libdevice.ilogb(x)", x, out=torch.int32), exponent.to(torch.int32))
    assert_same(evaluate(device, "libdevice.logb(x)", x, out=dtype), exponent.to(dtype))
    for name in ("ldexp", "scalbn"):
        got = evaluate(device, f"libdevice.{name}(x, y)", x, y, out=dtype)
        assert_same(got, torch.from_numpy(np.ldexp(x.numpy(), y.numpy())))


@pytest.mark.parametrize("dtype", dtypes(*PRECISE))
def test_fused_multiply_add(device, dtype):
    x = torch.tensor([1 + 2.0**-12, 3.0], dtype=dtype)
    z = torch.tensor([-(1 + 2.0**-11), 1.0], dtype=dtype)
    got = evaluate(device, "libdevice.fma(x, x, y)", x, z, out=dtype)
    assert_same(got, torch.tensor([2.0**-24, 10.0], dtype=dtype))


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64))
def test_counting_bits(device, dtype):
    x = samples(dtype)
    width = dtype.itemsize * 8
    patterns = [value % (1 << width) for value in x.tolist()]
    ones = torch.tensor([bin(value).count("1") for value in patterns], dtype=torch.int32)
    zeros = torch.tensor([width - value.bit_length() for value in patterns], dtype=torch.int32)
    first = torch.tensor([(value & -value).bit_length() for value in patterns], dtype=torch.int32)
    assert_same(evaluate(device, "libdevice.popc(x)", x, out=torch.int32), ones)
    assert_same(evaluate(device, "libdevice.clz(x)", x, out=torch.int32), zeros)
    assert_same(evaluate(device, "libdevice.ffs(x)", x, out=torch.int32), first)


def test_bits_of_a_float(device):
    x = samples(torch.float32)
    got = evaluate(device, "libdevice.float_as_int(x)", x, out=torch.int32)
    assert_same(got, x.view(torch.int32))
    assert_same(evaluate(device, "libdevice.int_as_float(x)", got, out=torch.float32), x)

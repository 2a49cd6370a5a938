"""What each function of the math library should return, and how far from it a result is."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import scipy.special as sp

Reference = Callable[..., np.ndarray]
UNKNOWN = 1e300  # where a reference does not know the value: finite, yet beyond every f32
SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, np.inf, -np.inf, np.nan]
SPECIALS += [1e-45, -1e-45, 1.1754944e-38, 3.4028235e38]


def _sinpi(x: np.ndarray) -> np.ndarray:
    reduced = np.fmod(x, 2.0)
    beyond = -sp.sindg(180 * (reduced - np.copysign(1, reduced)))
    value = np.where(np.abs(reduced) < 0.25, np.sin(np.pi * reduced), beyond)
    return np.where(reduced == np.trunc(reduced), np.copysign(0.0, x), value)


def _ieee_remainder(x: float, y: float) -> float:
    defined = np.isfinite(x) and y != 0 and not np.isnan(y)
    return math.remainder(x, y) if defined else np.nan


def _bessel(function: Reference) -> Reference:
    """SciPy's, where it is accurate: UNKNOWN elsewhere."""
    return lambda x: np.where(np.abs(x) < 1e4, function(x), UNKNOWN)


def _cospi(x: np.ndarray) -> np.ndarray:
    reduced = np.abs(np.fmod(x, 2.0))
    return sp.cosdg(180 * reduced) + 0.0


UNARY: dict[str, Reference] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: 10.0**x,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinpi": _sinpi,
    "cospi": _cospi,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": sp.erf,
    "erfc": sp.erfc,
    "erfcx": sp.erfcx,
    "erfinv": lambda x: np.where(x == 0, x, sp.erfinv(x)),
    "erfcinv": lambda x: np.where(x < 0, np.nan, np.where((x > 0) & (x < 1e-300), UNKNOWN, sp.erfcinv(x) + 0.0)),
    "normcdf": sp.ndtr,
    "normcdfinv": sp.ndtri,
    "lgamma": lambda x: np.where(np.isinf(x), np.inf, np.where(np.abs(x) < 1e-200, -np.log(np.abs(x)), sp.gammaln(x))),
    "tgamma": lambda x: np.where(np.isneginf(x) | ((x < 0) & (x == np.trunc(x))), np.nan, sp.gamma(x)),
    "j0": _bessel(sp.j0),
    "j1": _bessel(sp.j1),
    "y0": _bessel(sp.y0),
    "y1": _bessel(sp.y1),
    "cyl_bessel_i0": lambda x: np.where(np.isinf(x), np.inf, sp.i0(x)),
    "cyl_bessel_i1": lambda x: np.where(np.isinf(x) | (x == 0), x, sp.i1(x)),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0 + 0 * x)),
}
BINARY: dict[str, Reference] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fmod": np.fmod,
    "remainder": np.vectorize(_ieee_remainder, otypes=[np.float64]),
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y),
    "fmin": lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.fmin(x, y)),
    "fmax": lambda x, y: np.where((x == 0) & (y == 0), x + y, np.fmax(x, y)),
    "copysign": np.copysign,
}


# Functions of f64, for mpmath. Only what is written here rather than taken from the C library.
MP_UNARY: dict[str, Callable[[mp.mpf], mp.mpf]] = {
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "exp10": lambda x: mp.power(10, x),
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sin": mp.sin,
    "cos": mp.cos,
    "tanh": mp.tanh,
    "sinpi": mp.sinpi,
    "cospi": mp.cospi,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "erfinv": mp.erfinv,
    "normcdf": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "cyl_bessel_i0": lambda x: mp.besseli(0, x),
    "cyl_bessel_i1": lambda x: mp.besseli(1, x),
}
LOG_DOMAIN = ("log", "log1p", "rsqrt")


def inputs_f32(step: int = 1021, count: int = 100_000) -> np.ndarray:
    """Every step-th bit pattern, numbers of ordinary size, numbers near 1, and the special ones."""
    patterns = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    random = np.random.default_rng(0)
    ordinary = random.normal(0, 3, count)
    near_one = 1 + random.uniform(-0.4, 0.5, count)
    parts = [patterns, ordinary, near_one, random.uniform(-1, 1, count), SPECIALS]
    return np.concatenate([np.asarray(p, np.float32) for p in parts])


def ulp_errors(got: np.ndarray, reference: np.ndarray, element: type = np.float32) -> np.ndarray:
    """Distance in units of the reference's last place; infinity where they differ in kind or sign."""
    with np.errstate(all="ignore"):
        rounded = reference.astype(element)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1))).astype(np.float64)
        errors = np.abs(got.astype(np.float64) - reference) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        errors = np.where(special, np.where(same, 0.0, np.inf), errors)
        wrong_sign = (np.signbit(got) != np.signbit(rounded)) & ~np.isnan(rounded)
        return np.where(reference == UNKNOWN, 0.0, np.where(wrong_sign, np.inf, errors))

"""exp, log, pow and the hyperbolic tangent, for f32 and f64, as vector code.

Measured bounds are in docs/precision.md. The reductions are the classical ones (for exp by multiples of log(2) in two
parts, for log the exponent split off at sqrt(1/2); W. J. Cody and W. Waite, "Software Manual for the Elementary
Functions", 1980); the polynomials are our own (`coefficients.py`).
"""

from __future__ import annotations

import math

from . import coefficients as c
from .builder import Builder, Value
from .formats import F32, F64, FORMATS, INF, NAN, Format, clamp, power_of_two, round_to_integer, scale, split_exponent
from .library import define

# log(2), log10(2) and 1/log(10) as a sum of two numbers; the high parts of the first two have so few bits that their
# product with an exponent is exact.
LN2 = {"f32": (0.693145751953125, 1.42860677e-06), "f64": (0.6931471803691238, 1.9082149292705877e-10)}
LOG10_2 = {"f32": (0.301025390625, 4.605039066518657e-06), "f64": (0.30102999566224753, 1.7336659603752853e-12)}
LOG10_E = (0.4342944920063019, -1.0103049952192578e-08)
EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 128.0), "f64": (-1076.0, 1024.0)}
EXP10_RANGE = {"f32": (-46.0, 39.0), "f64": (-325.0, 309.0)}
EXP_POLYNOMIAL = {"f32": c.EXP_F32, "f64": c.EXP_F64}


def _reduce_exp(b: Builder, x: Value, fmt: Format) -> tuple[Value, Value]:
    """r in about [-log(2)/2, log(2)/2] and n with x == n log(2) + r."""
    high, low = LN2[fmt.element]
    n, integer = round_to_integer(b, x, 1 / math.log(2), fmt)
    return b.fma(n, -low, b.fma(n, -high, x)), integer


def _expm1_reduced(b: Builder, r: Value, fmt: Format) -> Value:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    return b.fma(r * r, b.polynomial_parallel(r, EXP_POLYNOMIAL[fmt.element]), r)


def _exp_reduced(b: Builder, r: Value, fmt: Format) -> Value:
    """exp(r) for |r| <= log(2) / 2; one rounding better than adding 1 to the above."""
    return b.fma(r, b.fma(r, b.polynomial_parallel(r, EXP_POLYNOMIAL[fmt.element]), 1.0), 1.0)


@define("exp", "f32", "f64")
def exp(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    r, n = _reduce_exp(b, clamp(x, *EXP_RANGE[x.element]), fmt)
    return scale(b, _exp_reduced(b, r, fmt), n, fmt)


def exp_of_moderate(b: Builder, x: Value) -> Value:
    """exp where the result is neither denormal nor infinite."""
    fmt = FORMATS[x.element]
    r, n = _reduce_exp(b, x, fmt)
    return _exp_reduced(b, r, fmt) * power_of_two(b, n, fmt)


@define("exp2", "f32", "f64")
def exp2(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    x = clamp(x, *EXP2_RANGE[x.element])
    n, integer = round_to_integer(b, x, 1.0, fmt)
    r = x - n
    first, *others = c.EXP2_F32 if fmt is F32 else c.EXP2_F64
    polynomial = b.fma(r, b.polynomial_parallel(r, others), first)
    return scale(b, b.fma(r, polynomial, 1.0), integer, fmt)


@define("exp10", "f32", "f64")
def exp10(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    x = clamp(x, *EXP10_RANGE[x.element])
    high, low = LOG10_2[fmt.element]
    n, integer = round_to_integer(b, x, math.log2(10), fmt)
    t = b.fma(n, -low, b.fma(n, -high, x))
    ln10_low = {"f32": -3.1975436e-08, "f64": -2.1707562233822494e-16}[fmt.element]
    r = b.fma(t, math.log(10), t * ln10_low)
    return scale(b, _exp_reduced(b, r, fmt), integer, fmt)


@define("expm1", "f32", "f64")
def expm1(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    largest = EXP_RANGE[fmt.element][1]
    r, n = _reduce_exp(b, clamp(x, -18.0 if fmt is F32 else -40.0, largest), fmt)
    tail = _expm1_reduced(b, r, fmt)
    half = power_of_two(b, n - 1, fmt)  # half the scale: 2**n itself may overflow
    result = b.fma(half, tail, half - 0.5) * 2.0
    return b.copysign(n.equals(0).select(tail, result), x)


def _finish_log(b: Builder, x: Value, result: Value) -> Value:
    """The logarithm's values outside the positive finite numbers."""
    result = x.equals(INF).select(INF, result)
    result = x.equals(0.0).select(-INF, result)
    return x.compare("ult", 0.0).select(NAN, result)


def _log_tail(b: Builder, f: Value, add: Value, fmt: Format) -> Value:
    """log(1 + f) - f + add for 1 + f in [sqrt(1/2), sqrt(2)); `add` is a small correction."""
    square = f * f
    if fmt is F32:
        return b.fma(-0.5, square, b.fma(square * f, b.polynomial_parallel(f, c.LOG_F32), add))
    s = f / (f + 2.0)
    z = s * s
    half_square = square * 0.5
    return b.fma(s, b.fma(z, b.polynomial_parallel(z, c.ATANH_F64), half_square), add) - half_square


def _log_of_product(b: Builder, f: Value, exponent: Value, fmt: Format) -> Value:
    """log((1 + f) * 2**exponent)"""
    high, low = LN2[fmt.element]
    e = exponent.signed_to_float(fmt.element)
    if fmt is F32:
        return b.fma(e, high, f + _log_tail(b, f, e * low, fmt))
    whole = e * high  # exact
    total = whole + f  # |whole| > |f| or whole is 0: `lost` is exact
    lost = f - (total - whole)
    return total + (_log_tail(b, f, e * low, fmt) + lost)


@define("log", "f32", "f64")
def log(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    m, exponent = split_exponent(b, x, fmt)
    return _finish_log(b, x, _log_of_product(b, m - 1.0, exponent, fmt))


@define("log1p", "f32", "f64")
def log1p(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    sum_ = x + 1.0
    exponent = (sum_.bits() - fmt.sqrt_half_bits) >> fmt.mantissa
    # 2**-exponent may be denormal (still exact); its quadruple is built from bits.
    quadruple = power_of_two(b, 2 - exponent, fmt)
    f = b.fma(x * 0.25, quadruple, quadruple * 0.25 - 1.0)
    result = _finish_log(b, sum_, _log_of_product(b, f, exponent, fmt))
    return (b.abs(x) < 2.0 ** -(fmt.mantissa + 2)).select(x, result)


@define("log2", "f32", "f64")
def log2(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("log2", "f64", x)
    m, exponent = split_exponent(b, x, F32)
    f = m - 1.0
    fraction = b.fma(f, b.polynomial_parallel(f, c.LOG2_F32), f)
    return _finish_log(b, x, exponent.signed_to_float("f32") + fraction)


@define("log10", "f32", "f64")
def log10(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("log10", "f64", x)
    m, exponent = split_exponent(b, x, F32)
    f = m - 1.0
    e = exponent.signed_to_float("f32")
    tail = _log_tail(b, f, b.constant("f32", 0.0), F32)
    small = b.fma(e, LOG10_2["f32"][1], b.fma(f, LOG10_E[1], tail * LOG10_E[0]))
    return _finish_log(b, x, b.fma(e, LOG10_2["f32"][0], b.fma(f, LOG10_E[0], small)))


@define("tanh", "f32", "f64")
def tanh(b: Builder, x: Value) -> Value:
    fmt = FORMATS[x.element]
    a = b.abs(x)
    square = x * x
    coefficients, border = (c.TANH_F32, 0.63) if fmt is F32 else (c.TANH_F64, 0.55)
    near = b.fma(square * a, b.polynomial_parallel(square, coefficients), a)
    far = 1.0 - 2.0 / (exp_of_moderate(b, clamp(a + a, 0.0, 50.0)) + 1.0)
    return b.copysign((a < border).select(near, far), x)


@define("pow", "f32 f32", "f64 f64", "f32 i32", "f64 i32")
def power(b: Builder, x: Value, y: Value) -> Value:
    if y.element == "i32":
        y = y.signed_to_float("f64")
    if x.element == "f64":
        return b.per_lane("pow", "f64", x, y)
    return _power_f32(b, x, y if y.element == "f64" else y.extend("f64"))


def log2_of_magnitude(b: Builder, x: Value) -> Value:
    """log2(|x|) of an f64 to about 2**-40 of max(1, |result|); -inf for 0."""
    a = b.abs(x)
    m, exponent = split_exponent(b, a, F64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    natural = b.fma(s * z, b.polynomial_parallel(z, c.ATANH_POWF), s + s)
    logarithm = b.fma(natural, 1 / math.log(2), exponent.signed_to_float("f64"))
    logarithm = a.equals(INF).select(INF, a.equals(0.0).select(-INF, logarithm))
    return a.is_nan().select(NAN, logarithm)


def exp2_to_f32(b: Builder, t: Value) -> Value:
    """2**t of an f64, as f32."""
    t = clamp(t, -200.0, 200.0)
    n, integer = round_to_integer(b, t, 1.0, F64)
    r = t - n
    magnitude = b.fma(r, b.polynomial_parallel(r, c.EXP2_POWF), 1.0) * power_of_two(b, integer, F64)
    return magnitude.truncate("f32")


def _power_f32(b: Builder, x: Value, y: Value) -> Value:
    """x**y rounded to f32, through log2 and exp2 in f64; C's rules for special values."""
    result = exp2_to_f32(b, y * log2_of_magnitude(b, x.extend("f64")))
    is_integer = b.trunc(y).equals(y)
    half = y * 0.5
    is_odd = is_integer & b.trunc(half).differs(half)
    result = ((x.bits() < 0) & is_odd).select(-result, result)
    result = ((x < 0.0) & x.differs(-INF) & (is_integer ^ True)).select(NAN, result)
    always_one = x.equals(1.0) | y.equals(0.0) | (b.abs(x).equals(1.0) & b.abs(y).equals(INF))
    return always_one.select(1.0, result)

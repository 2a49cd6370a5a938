"""erf and its family, the normal distribution, gamma and Bessel functions.

erf in f32 is vector code of its own. The others are computed in f64, some by the C library a lane at a time, and an f32
result is rounded once.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .basic import through_f64
from .builder import Builder, Value
from .exponential import exp, exp_of_moderate, log
from .formats import F32, INF, NAN, clamp
from .library import Body, define

FLOATS = ("f32", "f64")
SQRT_HALF = (0.7071067811865476, -4.833646656726457e-17)
BESSEL_BORDER = 20.0  # from here the asymptotic series' smallest term is below 2**-53
BESSEL_TERMS = 48
ASYMPTOTIC_TERMS = 24


@define("erf", *FLOATS)
def erf(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("erf", "f64", x)
    a = b.abs(x)
    a = (a > 4.0).select(4.0, a)
    near = b.fma(a, b.polynomial_parallel(a * a, c.ERF_F32), a)
    c0, c1, *others = c.LOG2_ERFC_F32
    far = 1.0 - _exp2_of_few_bits(b, a * b.fma(a, b.fma(a, b.polynomial_parallel(a, others), c1), c0))
    return b.copysign((a >= 1.0).select(far, near), x)  # NaN is near


def _exp2_of_few_bits(b: Builder, x: Value) -> Value:
    """2**x to about 2**-21, enough for what is subtracted from a far larger number; x is from -126 to 0."""
    shifted = x + F32.round_shift
    r = x - (shifted - F32.round_shift)
    mantissa = b.fma(r, b.polynomial(r, c.EXP2_ERFC_F32), 1.0)
    return (mantissa.bits() + (shifted.bits() << F32.mantissa)).bitcast("f32")


def _from_c(name: str) -> None:
    define(name, *FLOATS)(lambda b, x: through_f64(b, name, x))


def _erfc_for_f32(b: Builder, x: Value) -> Value:
    """erfc of an f64 that is (nearly) an f32, to about 2**-30: exp(-x^2) times a polynomial."""
    a = clamp(b.abs(x), 0.0, 10.25)
    t = (a - 2.0) / (a + 2.0)
    value = exp_of_moderate(b, -(a * a)) * b.polynomial_parallel(t, c.ERFCX_F32)
    return (x < 0.0).select(2.0 - value, value)


@define("erfc", *FLOATS)
def erfc(b: Builder, x: Value) -> Value:
    return through_f64(b, "erfc", x) if x.element == "f64" else _erfc_for_f32(b, x.extend("f64")).truncate("f32")


for _name in ("lgamma", "tgamma", "j0", "j1", "y0", "y1"):
    _from_c(_name)


def _bessel_of_order(name: str) -> None:
    def body(b: Builder, order: Value, x: Value) -> Value:
        result = b.per_lane(name, "f64", order, x.extend("f64") if x.element == "f32" else x)
        return result.truncate("f32") if x.element == "f32" else result

    define(name, "i32 f32", "i32 f64")(body)


_bessel_of_order("jn")
_bessel_of_order("yn")


def _in_f64(name: str, body: Body) -> None:
    """Registers a function of one argument whose body is written for f64."""

    def dispatch(b: Builder, x: Value) -> Value:
        return body(b, x.extend("f64")).truncate("f32") if x.element == "f32" else body(b, x)

    define(name, *FLOATS)(dispatch)


def _erfcx(b: Builder, x: Value) -> Value:
    """exp(x^2) erfc(x): the product up to 25, then the asymptotic series 1 / (x sqrt(pi)) * (1 - 1/(2x^2) + ...)."""
    limited = clamp(x, -26.635, 25.0)  # below, the result overflows
    square = limited * limited
    lost = b.fma(limited, limited, -square)
    power = exp(b, square)
    product = b.fma(power, lost, power) * b.per_lane("erfc", "f64", limited)
    z = 1.0 / (x * x)
    terms, term = [1.0], 1.0
    for k in range(1, 7):
        term *= -(2 * k - 1) / 2
        terms.append(term)
    series = b.polynomial(z, terms) * (1 / math.sqrt(math.pi)) / x
    return (x > 25.0).select(series, product)


def _normcdf(b: Builder, x: Value) -> Value:
    """erfc(-x / sqrt(2)) / 2; the rounding error of the argument is put back to first order."""
    x = clamp(x, -39.0, 39.0)
    t = x * -SQRT_HALF[0]
    lost = b.fma(x, -SQRT_HALF[0], -t) - x * SQRT_HALF[1]
    slope = exp(b, -(t * t)) * (-2 / math.sqrt(math.pi))
    return b.fma(slope, lost, b.per_lane("erfc", "f64", t)) * 0.5


_in_f64("erfcx", _erfcx)


@define("normcdf", *FLOATS)
def normcdf(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return _normcdf(b, x)
    return (_erfc_for_f32(b, x.extend("f64") * -SQRT_HALF[0]) * 0.5).truncate("f32")


# M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37 (1988),
# PPND16: numerators and denominators.
_CENTRE = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_FLANK = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_TAIL = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828505048910e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def _ratio(b: Builder, x: Value, ratio: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
    return b.polynomial(x, ratio[0]) / b.polynomial(x, ratio[1])


def _normal_quantile(b: Builder, offset: Value, doubled_tail: Value) -> Value:
    """The quantile at probability 1/2 + offset.

    doubled_tail: twice the smaller of that probability and its complement; twice, so that it does not underflow.
    """
    centre = offset * _ratio(b, 0.180625 - offset * offset, _CENTRE)
    r = b.sqrt(math.log(2) - log(b, doubled_tail))
    outside = (r <= 5.0).select(_ratio(b, r - 1.6, _FLANK), _ratio(b, r - 5.0, _TAIL))
    outside = doubled_tail.equals(0.0).select(INF, outside)
    result = (b.abs(offset) <= 0.425).select(centre, b.copysign(outside, offset))
    return (doubled_tail < 0.0).select(NAN, result)


def _erfinv(b: Builder, x: Value) -> Value:
    result = _normal_quantile(b, x * 0.5, 1.0 - b.abs(x)) * math.sqrt(0.5)
    return x.equals(0.0).select(x, result)


def _erfcinv(b: Builder, x: Value) -> Value:
    return _normal_quantile(b, (1.0 - x) * 0.5, (x < 1.0).select(x, 2.0 - x)) * math.sqrt(0.5)


def _normcdfinv(b: Builder, p: Value) -> Value:
    return _normal_quantile(b, p - 0.5, (p < 0.5).select(p, 1.0 - p) * 2.0)


_in_f64("erfinv", _erfinv)
_in_f64("erfcinv", _erfcinv)
_in_f64("normcdfinv", _normcdfinv)


def _modified_bessel(b: Builder, x: Value, order: int) -> Value:
    """I_0 or I_1: its power series, whose terms are all positive, up to 20, the asymptotic one beyond."""
    a = b.abs(x)
    quarter = clamp(a, 0.0, BESSEL_BORDER)
    quarter = quarter * quarter * 0.25
    series = b.polynomial(quarter, [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(BESSEL_TERMS)])
    series = series * (a * 0.5) if order else series
    terms, term = [1.0], 1.0
    for k in range(1, ASYMPTOTIC_TERMS):
        term *= -(4 * order * order - (2 * k - 1) ** 2) / (8 * k)
        terms.append(term)
    half_power = exp(b, a * 0.5)  # exp(a) may overflow where the result does not
    scaled = b.polynomial(1.0 / a, terms) * (half_power / b.sqrt(a * (2 * math.pi)))
    large = a.equals(INF).select(INF, scaled * half_power)
    result = (a > BESSEL_BORDER).select(large, series)
    return b.copysign(result, x) if order else result


_in_f64("cyl_bessel_i0", lambda b, x: _modified_bessel(b, x, 0))
_in_f64("cyl_bessel_i1", lambda b, x: _modified_bessel(b, x, 1))

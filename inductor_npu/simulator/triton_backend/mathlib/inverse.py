"""Inverse trigonometric and hyperbolic functions, sinh, cosh, roots and norms.

f32 is computed in f64 vector code and rounded once, so that intermediate overflow and cancellation do not arise; f64
goes to the C library.
"""

from __future__ import annotations

import math

from . import coefficients as c
from .basic import through_f64
from .builder import Builder, Value
from .exponential import exp, exp2_to_f32, expm1, log1p, log2_of_magnitude
from .formats import INF
from .library import Body, define

FLOATS = ("f32", "f64")


def _in_f64(name: str, body: Body, arity: int = 1) -> Body:
    """Registers `name`: `body` on f64 values for f32, the C function of that name for f64."""

    def dispatch(b: Builder, *arguments: Value) -> Value:
        if arguments[0].element == "f64":
            return b.per_lane(name, "f64", *arguments)
        return body(b, *(a.extend("f64") for a in arguments)).truncate("f32")

    return define(name, *(" ".join([e] * arity) for e in FLOATS))(dispatch)


def _sinh(b: Builder, x: Value) -> Value:
    t = expm1(b, b.abs(x))
    half = (t + t / (t + 1.0)) * 0.5
    return b.copysign(t.equals(INF).select(INF, half), x)


def _cosh(b: Builder, x: Value) -> Value:
    e = exp(b, b.abs(x))
    return (e + 1.0 / e) * 0.5


def _asinh(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    square = a * a
    result = log1p(b, a + square / (b.sqrt(square + 1.0) + 1.0))
    return b.copysign(a.equals(INF).select(INF, result), x)


def _acosh(b: Builder, x: Value) -> Value:
    t = x - 1.0
    return (x < 1.0).select(math.nan, log1p(b, t + b.sqrt(b.fma(t, t, t + t))))


def _atanh(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    return b.copysign(log1p(b, (a + a) / (1.0 - a)) * 0.5, x)


def _arctangent(b: Builder, y: Value, x: Value) -> Value:
    """atan2 of f64 values, to about 2**-40."""
    a, d = b.abs(y), b.abs(x)
    swap = a > d
    low, high = swap.select(d, a), swap.select(a, d)
    beyond = low > high * math.tan(math.pi / 8)  # then atan(t) = pi/4 + atan((t - 1) / (t + 1))
    both_infinite = low.equals(INF)
    numerator = both_infinite.select(0.0, beyond.select(low - high, low))
    denominator = both_infinite.select(1.0, beyond.select(low + high, high))
    t = numerator / high.equals(0.0).select(1.0, denominator)
    z = t * t
    angle = b.fma(t * z, b.polynomial_parallel(z, c.ATAN_F32), t)
    angle = (beyond | both_infinite).select(angle + math.pi / 4, angle)
    angle = swap.select(math.pi / 2 - angle, angle)
    angle = (x.bits() < 0).select(math.pi - angle, angle)
    return b.copysign((x.is_nan() | y.is_nan()).select(math.nan, angle), y)


def _opposite_leg(b: Builder, x: Value) -> Value:
    return b.sqrt((1.0 - x) * (x + 1.0))


_in_f64("sinh", _sinh)
_in_f64("cosh", _cosh)
_in_f64("asinh", _asinh)
_in_f64("acosh", _acosh)
_in_f64("atanh", _atanh)
_in_f64("atan2", _arctangent, arity=2)
_in_f64("atan", lambda b, x: _arctangent(b, x, b.constant("f64", 1.0)))
_in_f64("asin", lambda b, x: _arctangent(b, x, _opposite_leg(b, x)))
_in_f64("acos", lambda b, x: _arctangent(b, _opposite_leg(b, x), x))


def _cube_root(b: Builder, x: Value, exponent: float) -> Value:
    """|x|**exponent with x's sign, rounded to f32."""
    return b.copysign(exp2_to_f32(b, log2_of_magnitude(b, x.extend("f64")) * exponent), x)


@define("cbrt", *FLOATS)
def cbrt(b: Builder, x: Value) -> Value:
    return b.per_lane("cbrt", "f64", x) if x.element == "f64" else _cube_root(b, x, 1 / 3)


@define("rcbrt", *FLOATS)
def rcbrt(b: Builder, x: Value) -> Value:
    return 1.0 / b.per_lane("cbrt", "f64", x) if x.element == "f64" else _cube_root(b, x, -1 / 3)


def _norm(b: Builder, values: tuple[Value, ...]) -> Value:
    """The Euclidean norm in f64; infinite when any value is, even beside a NaN."""
    if values[0].element == "f64":
        result = values[0]
        for value in values[1:]:
            result = through_f64(b, "hypot", result, value)
        return result
    wide = [v.extend("f64") for v in values]
    total = wide[0] * wide[0]
    infinite = b.abs(wide[0]).equals(INF)
    for value in wide[1:]:
        total = b.fma(value, value, total)
        infinite = infinite | b.abs(value).equals(INF)
    return infinite.select(INF, b.sqrt(total))


def _define_norms() -> None:
    for name, reciprocal_name, arity in (("hypot", "rhypot", 2), ("norm3d", "rnorm3d", 3), ("norm4d", "rnorm4d", 4)):
        signatures = tuple(" ".join([e] * arity) for e in FLOATS)

        def norm(b: Builder, *values: Value) -> Value:
            result = _norm(b, values)
            return result.truncate("f32") if values[0].element == "f32" else result

        def reciprocal(b: Builder, *values: Value) -> Value:
            result = 1.0 / _norm(b, values)
            return result.truncate("f32") if values[0].element == "f32" else result

        define(name, *signatures)(norm)
        define(reciprocal_name, *signatures)(reciprocal)


_define_norms()

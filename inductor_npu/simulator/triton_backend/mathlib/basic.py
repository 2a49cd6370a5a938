"""Roots, rounding to integers, minima and maxima, parts of a number, remainders: all exact but rsqrt."""

from __future__ import annotations

import math

from .builder import Builder, Value
from .formats import FORMATS, INF, NAN, clamp, power_of_two
from .library import Body, define

FLOATS = ("f32", "f64")
PAIRS = ("f32 f32", "f64 f64")


def through_f64(b: Builder, c_function: str, *arguments: Value) -> Value:
    """A C function of doubles, a lane at a time; an f32 result is rounded from f64."""
    wide = [a.extend("f64") if a.element == "f32" else a for a in arguments]
    result = b.per_lane(c_function, "f64", *wide)
    return result.truncate("f32") if any(a.element == "f32" for a in arguments) else result


def _flag(condition: Value) -> Value:
    """libdevice's predicates return an int32."""
    return condition.zero_extend("i32")


@define("sqrt", *FLOATS)
def sqrt(b: Builder, x: Value) -> Value:
    return b.sqrt(x)


@define("rsqrt", *FLOATS)
def rsqrt(b: Builder, x: Value) -> Value:
    return 1.0 / b.sqrt(x)


@define("abs", *FLOATS, "i32", "i64")
def absolute(b: Builder, x: Value) -> Value:
    return b.abs(x) if x.element in FORMATS else (x < 0).select(-x, x)


@define("fma", "f32 f32 f32", "f64 f64 f64")
def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return b.fma(x, y, z)


@define("floor", *FLOATS)
def floor(b: Builder, x: Value) -> Value:
    return b.floor(x)


@define("ceil", *FLOATS)
def ceil(b: Builder, x: Value) -> Value:
    return b.unary("ceil", x)


@define("trunc", *FLOATS)
def trunc(b: Builder, x: Value) -> Value:
    return b.trunc(x)


@define("nearbyint", *FLOATS)
@define("rint", *FLOATS)
def rint(b: Builder, x: Value) -> Value:
    return b.round_even(x)


@define("round", *FLOATS)
def round_half_away(b: Builder, x: Value) -> Value:
    below_half = math.nextafter(0.5, 0.0) if x.element == "f64" else 0.5 - 2.0**-25
    return b.copysign(b.trunc(x + b.copysign(below_half, x)), x)


@define("llrint", *FLOATS)
def llrint(b: Builder, x: Value) -> Value:
    return b.to_int(b.round_even(x), "i64")


@define("llround", *FLOATS)
def llround(b: Builder, x: Value) -> Value:
    return b.to_int(round_half_away(b, x), "i64")


@define("isnan", *FLOATS)
def isnan(b: Builder, x: Value) -> Value:
    return _flag(x.is_nan())


@define("isinf", *FLOATS)
def isinf(b: Builder, x: Value) -> Value:
    return _flag(b.abs(x).equals(INF))


@define("isfinited", *FLOATS)
@define("finitef", *FLOATS)
@define("isfinite", *FLOATS)
def isfinite(b: Builder, x: Value) -> Value:
    return _flag(b.abs(x).compare("olt", INF))


@define("signbit", *FLOATS)
def signbit(b: Builder, x: Value) -> Value:
    return _flag(x.bits() < 0)


@define("copysign", *PAIRS)
def copysign(b: Builder, x: Value, y: Value) -> Value:
    return b.copysign(x, y)


@define("fdim", *PAIRS)
def fdim(b: Builder, x: Value, y: Value) -> Value:
    return (x <= y).select(0.0, x - y)


def _extremum(predicate: str, merge_zeros: str) -> Body:
    """C's fmin and fmax: a NaN loses, -0 is less than +0."""

    def body(b: Builder, x: Value, y: Value) -> Value:
        bits = b.binary(merge_zeros, x.bits().element, x.bits(), y.bits())
        chosen = x.equals(y).select(bits.bitcast(x.element), x.compare(predicate, y).select(x, y))
        return x.is_nan().select(y, y.is_nan().select(x, chosen))

    return body


fmin = define("fmin", *PAIRS)(_extremum("olt", "or"))
fmax = define("fmax", *PAIRS)(_extremum("ogt", "and"))


@define("saturatef", "f32")
def saturate(b: Builder, x: Value) -> Value:
    return x.is_nan().select(0.0, clamp(x, 0.0, 1.0))


@define("fast_dividef", *PAIRS)
def divide(b: Builder, x: Value, y: Value) -> Value:
    return x / y


@define("nextafter", *PAIRS)
def nextafter(b: Builder, x: Value, y: Value) -> Value:
    fmt = FORMATS[x.element]
    bits = x.bits()
    outward = y > x
    grows = (bits < 0) ^ outward  # whether the magnitude grows
    step = bits + grows.select(b.constant(fmt.integer, 1), -1)
    from_zero = (y.bits() & fmt.sign_bit) | 1
    moved = x.equals(0.0).select(from_zero, step).bitcast(x.element)
    return (x.is_nan() | y.is_nan()).select(NAN, x.equals(y).select(y, moved))


def _exponent(b: Builder, x: Value) -> Value:
    """floor(log2(|x|)) for finite x other than 0."""
    fmt = FORMATS[x.element]
    a = b.abs(x)
    tiny = a < fmt.smallest_normal
    bits = tiny.select(a * 2.0**fmt.mantissa, a).bits()
    return (bits >> fmt.mantissa) - tiny.select(b.constant(fmt.integer, fmt.mantissa + fmt.bias), fmt.bias)


@define("ilogb", *FLOATS)
def ilogb(b: Builder, x: Value) -> Value:
    """C's FP_ILOGB0 (the least int) for 0 and FP_ILOGBNAN as CUDA has it, the least int; the largest for infinity."""
    exponent = _exponent(b, x)
    exponent = exponent if exponent.element == "i32" else exponent.truncate("i32")
    exponent = b.abs(x).equals(INF).select(2**31 - 1, exponent)
    return (x.equals(0.0) | x.is_nan()).select(-(2**31), exponent)


@define("logb", *FLOATS)
def logb(b: Builder, x: Value) -> Value:
    exponent = _exponent(b, x).signed_to_float(x.element)
    exponent = b.abs(x).compare("ult", INF).select(exponent, b.abs(x))
    return x.equals(0.0).select(-INF, x.is_nan().select(x, exponent))


@define("scalbn", "f32 i32", "f64 i32")
@define("ldexp", "f32 i32", "f64 i32")
def ldexp(b: Builder, x: Value, n: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("ldexp", "f64", x, n)
    limited = (n > 300).select(300, (n < -300).select(-300, n)).sign_extend("i64")
    return (x.extend("f64") * power_of_two(b, limited, FORMATS["f64"])).truncate("f32")


@define("fmod", *PAIRS)
def fmod(b: Builder, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y, exactly. f32 in f64 while the quotient is moderate; the C library beyond and for f64."""
    if x.element == "f64":
        return b.per_lane("fmod", "f64", x, y)
    a, d = b.abs(x).extend("f64"), b.abs(y).extend("f64")
    quotient = b.trunc(a / d)
    rest = b.fma(-quotient, d, a)  # exact: the product has at most 53 bits
    rest = (rest < 0.0).select(rest + d, rest)
    rest = d.equals(INF).select(a, rest)
    is_hard = quotient.compare("uge", 2.0**29)
    (result,) = b.where_any(is_hard, (rest,), lambda: (b.per_lane("fmod", "f64", a, d),))
    result = a.compare("ult", INF).select(result, NAN)
    return b.copysign((x.is_nan() | y.is_nan()).select(NAN, result).truncate("f32"), x)


@define("remainder", *PAIRS)
def remainder(b: Builder, x: Value, y: Value) -> Value:
    return through_f64(b, "remainder", x, y)


@define("rcp64h", "f64")
def reciprocal_high_word(b: Builder, x: Value) -> Value:
    """1 / x with the low 32 bits cleared."""
    return ((1.0 / x).bits() & ~0xFFFFFFFF).bitcast("f64")


def _bitcast_to(element: str) -> Body:
    return lambda b, x: x.bitcast(element)


for _name, _source, _target in (
    ("int_as_float", "i32", "f32"),
    ("uint_as_float", "i32", "f32"),
    ("float_as_int", "f32", "i32"),
    ("float_as_uint", "f32", "i32"),
    ("longlong_as_double", "i64", "f64"),
    ("double_as_longlong", "f64", "i64"),
):
    define(_name, _source)(_bitcast_to(_target))


@define("hiloint2double", "i32 i32")
def double_of_words(b: Builder, high: Value, low: Value) -> Value:
    return ((high.zero_extend("i64") << 32) | low.zero_extend("i64")).bitcast("f64")


@define("double2loint", "f64")
def low_word(b: Builder, x: Value) -> Value:
    return x.bits().truncate("i32")


@define("double2hiint", "f64")
def high_word(b: Builder, x: Value) -> Value:
    return x.bits().logical_shift(32).truncate("i32")

"""Bit counts, wide products and division of integers. Nothing here traps.

`int_divide` and `int_remainder` (with `unsigned_` before them for unsigned ones) truncate toward zero as in C. Where C
leaves it undefined: x / 0 is 0 and x % 0 is x; INT_MIN / -1 is INT_MIN and its remainder 0.
"""

from __future__ import annotations

from .builder import BIT_WIDTHS, Builder, Value
from .library import Body, define

WIDTHS = ("i32", "i64")


@define("popc", *WIDTHS)
def popc(b: Builder, x: Value) -> Value:
    return _as_i32(b.unary("ctpop", x))


def _as_i32(x: Value) -> Value:
    return x if x.element == "i32" else x.truncate("i32")


@define("clz", *WIDTHS)
def clz(b: Builder, x: Value) -> Value:
    return _as_i32(b.intrinsic("ctlz", x.element, x, flags="i1 false"))


@define("ffs", *WIDTHS)
def ffs(b: Builder, x: Value) -> Value:
    """1-based position of the lowest set bit, 0 for 0."""
    return x.equals(0).select(0, _as_i32(b.intrinsic("cttz", x.element, x, flags="i1 false")) + 1)


@define("brev", *WIDTHS)
def brev(b: Builder, x: Value) -> Value:
    return b.unary("bitreverse", x)


@define("byte_perm", "i32 i32 i32")
def byte_perm(b: Builder, x: Value, y: Value, selector: Value) -> Value:
    """Four bytes chosen from the eight of y:x by the four low nibbles (three bits each) of the selector."""
    both = (y.zero_extend("i64") << 32) | x.zero_extend("i64")
    wide = selector.zero_extend("i64")
    result: Value | None = None
    for place in range(4):
        byte = (both.logical_shift((wide.logical_shift(4 * place) & 7) << 3) & 0xFF) << (8 * place)
        result = byte if result is None else result | byte
    assert result is not None, "four bytes"
    return result.truncate("i32")


def _high_product(signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        bits = BIT_WIDTHS[x.element]
        wide = f"i{2 * bits}"
        x, y = (v.sign_extend(wide) if signed else v.zero_extend(wide) for v in (x, y))
        return (x * y).logical_shift(bits).truncate(f"i{bits}")

    return body


mulhi = define("mulhi", "i32 i32", "i64 i64")(_high_product(signed=True))
umulhi = define("umulhi", "i32 i32", "i64 i64")(_high_product(signed=False))


@define("mul24", "i32 i32")
def mul24(b: Builder, x: Value, y: Value) -> Value:
    """The low 32 bits of the product of the low 24 bits, sign-extended."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


@define("umul24", "i32 i32")
def umul24(b: Builder, x: Value, y: Value) -> Value:
    return (x & 0xFFFFFF) * (y & 0xFFFFFF)


@define("sad", "i32 i32 i32")
def sad(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """|x - y| + z"""
    return (x > y).select(x - y, y - x) + z


@define("usad", "i32 i32 i32")
def usad(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return x.compare("ugt", y).select(x - y, y - x) + z


@define("hadd", "i32 i32")
def hadd(b: Builder, x: Value, y: Value) -> Value:
    """(x + y) >> 1 without overflow"""
    return (x & y) + ((x ^ y) >> 1)


@define("uhadd", "i32 i32")
def uhadd(b: Builder, x: Value, y: Value) -> Value:
    return (x & y) + (x ^ y).logical_shift(1)


@define("rhadd", "i32 i32")
def rhadd(b: Builder, x: Value, y: Value) -> Value:
    """(x + y + 1) >> 1 without overflow"""
    return (x | y) - ((x ^ y) >> 1)


@define("urhadd", "i32 i32")
def urhadd(b: Builder, x: Value, y: Value) -> Value:
    return (x | y) - (x ^ y).logical_shift(1)


def _divide_small(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    """The quotient of at most 32-bit integers; y is neither 0 nor, if signed, -1.

    A float's division is exact enough: a quotient that is no integer is further from one than the rounding error.
    """
    element = "f64" if x.element == "i32" else "f32"
    if signed:
        return b.cast("fptosi", x.signed_to_float(element) / y.signed_to_float(element), x.element)
    return b.cast("fptoui", x.unsigned_to_float(element) / y.unsigned_to_float(element), x.element)


def _divide_unsigned_i64(b: Builder, x: Value, y: Value) -> Value:
    """The quotient of unsigned 64-bit integers, y not 0: two estimates in f64, then a correction by one."""
    divisor = y.unsigned_to_float("f64")
    estimate = b.to_int(x.unsigned_to_float("f64") / divisor, "i64", signed=False)
    rest = x - estimate * y  # within 2**13 + y of 0: fits while y < 2**63
    correction = b.to_int(rest.signed_to_float("f64") / divisor, "i64")
    quotient = estimate + correction
    rest = rest - correction * y
    quotient = quotient + (rest < 0).select(b.constant("i64", -1), (rest >= y).zero_extend("i64"))
    return (y < 0).select(x.compare("uge", y).zero_extend("i64"), quotient)


def quotient(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    """x / y with the results of this file's docstring."""
    is_zero = y.equals(0)
    if x.element == "i64":
        if not signed:
            return is_zero.select(0, _divide_unsigned_i64(b, x, is_zero.select(1, y)))
        a, d = ((v < 0).select(-v, v) for v in (x, y))
        magnitude = _divide_unsigned_i64(b, a, is_zero.select(1, d))
        return is_zero.select(0, ((x ^ y) < 0).select(-magnitude, magnitude))
    if not signed:
        return is_zero.select(0, _divide_small(b, x, is_zero.select(1, y), signed))
    is_minus_one = y.equals(-1)
    result = _divide_small(b, x, (is_zero | is_minus_one).select(1, y), signed)
    return is_zero.select(0, is_minus_one.select(-x, result))


def _define_divisions() -> None:
    signatures = [f"i{bits} i{bits}" for bits in (8, 16, 32, 64)]
    for signed, prefix in ((True, ""), (False, "unsigned_")):

        def divide(b: Builder, x: Value, y: Value, signed: bool = signed) -> Value:
            return quotient(b, x, y, signed)

        def rest(b: Builder, x: Value, y: Value, signed: bool = signed) -> Value:
            return x - quotient(b, x, y, signed) * y

        define(f"{prefix}int_divide", *signatures)(divide)
        define(f"{prefix}int_remainder", *signatures)(rest)


_define_divisions()


@define("divide_by_reciprocal", "i32 i32 f64")
def divide_by_reciprocal(b: Builder, x: Value, y: Value, reciprocal: Value) -> Value:
    """x / y given 1.0 / y in f64, for a divisor that serves many lanes. As `int_divide`; for y = 0 pass any number.

    (|x| + 1/2) / |y| is at least 1/(2|y|) away from every integer, far more than the error of the product, so
    truncation is exact.
    """
    wide = x.signed_to_float("f64")
    shifted = wide + b.copysign(0.5, wide)
    is_special = y.equals(0) | y.equals(-1)
    product = is_special.select(0.0, shifted * reciprocal)
    return y.equals(-1).select(-x, b.cast("fptosi", product, "i32"))

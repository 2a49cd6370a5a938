"""Exponentials, logarithms, hyperbolic functions and powers of fp32, to a few units in the last place.

Both Tritons have exp and log. Where a formula in these would cancel, near a function's zero, a polynomial replaces it,
or the rounding error is added back.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .logarithm import log_in_two, upper_half
from .rounding import with_sign_of

_SMALLEST = tl.constexpr(1.1754943508222875e-38)
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def log1p(x: tl.tensor) -> tl.tensor:
    """log(1 + x)."""
    one_more = 1.0 + x
    lost = x - (one_more - 1.0)  # what the sum has rounded away
    divisor = tl.maximum(one_more, _SMALLEST, propagate_nan=tl.PropagateNan.ALL)  # not the 0 of x = -1
    result = tl.log(one_more) + tl.where(one_more == x, 0.0, lost / divisor)
    return tl.where(one_more == 1.0, x, result)  # a sum, which loses the sign of -0.0


@triton.jit
def expm1(x: tl.tensor) -> tl.tensor:
    """exp(x) - 1: below 0.5 its Taylor series."""
    series = x * (1.0 / 40320.0) + 1.0 / 5040.0
    series = series * x + 1.0 / 720.0
    series = series * x + 1.0 / 120.0
    series = series * x + 1.0 / 24.0
    series = series * x + 1.0 / 6.0
    series = series * x + 0.5
    series = x * (series * x + 1.0)  # a product: the sum of -0.0 and its square is 0.0
    return tl.where(tl.abs(x) < 0.5, series, tl.exp(x) - 1.0)


@triton.jit
def tanh(x: tl.tensor) -> tl.tensor:
    """(exp(2 x) - 1) / (exp(2 x) + 1): below 0.625 a polynomial (Cephes, tanhf)."""
    magnitude = tl.abs(x)
    square = x * x
    series = square * -5.70498872745e-3 + 2.06390887954e-2
    series = series * square - 5.37397155531e-2
    series = series * square + 1.33314422036e-1
    series = series * square - 3.33332819422e-1
    series = series * square * magnitude + magnitude
    far = 1.0 - 2.0 / (tl.exp(magnitude + magnitude) + 1.0)
    return with_sign_of(tl.where(magnitude < 0.625, series, far), x)


@triton.jit
def _halves_of_exp(magnitude: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """exp(magnitude) / 2 as a sum of two, the first one exact, and exp(-magnitude) / 2.

    exp(magnitude) itself would overflow too early. exp(1.387...) / 2 is 2 and what the small factor says, to 1e-11; the
    difference is exact from 0.7 on.
    """
    power = tl.exp(magnitude - 1.3873825073242188)
    return power + power, power * 0.0021774768829345703, 0.12486405 / power


@triton.jit
def sinh(x: tl.tensor) -> tl.tensor:
    """(exp(x) - exp(-x)) / 2: below 1.75 a polynomial."""
    magnitude = tl.abs(x)
    square = x * x
    series = square * 2.94441315e-06 + 0.000197936184
    series = series * square + 0.00833380036
    series = series * square + 0.166666523
    series = series * square * magnitude + magnitude
    large, small, inverse = _halves_of_exp(magnitude)
    return with_sign_of(tl.where(magnitude < 1.75, series, large + (small - inverse)), x)


@triton.jit
def cosh(x: tl.tensor) -> tl.tensor:
    """(exp(x) + exp(-x)) / 2."""
    large, small, inverse = _halves_of_exp(tl.abs(x))
    return large + (small + inverse)


@triton.jit
def asinh(x: tl.tensor) -> tl.tensor:
    """log(x + sqrt(x^2 + 1))."""
    magnitude = tl.abs(x)
    bounded = tl.minimum(magnitude, 1.0e4, propagate_nan=tl.PropagateNan.ALL)
    square = bounded * bounded
    near = log1p(bounded + square / (1.0 + tl.sqrt_rn(square + 1.0)))
    return with_sign_of(tl.where(magnitude <= 1.0e4, near, tl.log(magnitude) + _LN_2), x)


@triton.jit
def acosh(x: tl.tensor) -> tl.tensor:
    """log(x + sqrt(x^2 - 1)); NaN below 1."""
    above = tl.where(x < 1.0, float("nan"), x - 1.0)
    bounded = tl.minimum(above, 1.0e4, propagate_nan=tl.PropagateNan.ALL)
    twice = bounded + bounded
    square = bounded * bounded + twice
    root = tl.sqrt_rn(square)
    total = root + bounded
    # What the sums have rounded away; the root is the larger one.
    lost = 0.5 * (bounded * bounded - (square - twice)) / tl.maximum(root, _SMALLEST, propagate_nan=tl.PropagateNan.ALL)
    lost = lost + (bounded - (total - root))
    one_more = 1.0 + total
    near = tl.log(one_more) + ((total - (one_more - 1.0)) + lost) / one_more
    return tl.where(x > 1.0e4, tl.log(x) + _LN_2, near)


@triton.jit
def atanh(x: tl.tensor) -> tl.tensor:
    """log((1 + x) / (1 - x)) / 2, below 0.5 a polynomial; NaN beyond 1."""
    magnitude = tl.abs(x)
    square = x * x
    series = square * 0.176694319 + 0.0513560139
    series = series * square + 0.118237861
    series = series * square + 0.14222756
    series = series * square + 0.200025186
    series = series * square + 0.333333015
    series = series * square * magnitude + magnitude
    far = 0.5 * tl.log((1.0 + magnitude) / (1.0 - magnitude))
    return with_sign_of(tl.where(magnitude < 0.5, series, far), x)


_ROUND = tl.constexpr(1.5 * 2.0**23)
_LN_2_HIGH = tl.constexpr(0.693359375)  # 10 bits: exact times an exponent
_LN_2_LOW = tl.constexpr(-2.12194440054690583e-4)


@triton.jit
def _clamped(x: tl.tensor, limit: tl.constexpr) -> tl.tensor:
    """`x` limited to -limit and limit."""
    not_less = tl.maximum(x, -limit, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(not_less, limit, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def power(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """`x ** y` as C's pow: exp(y log(x)), the logarithm and its product in two parts."""
    high, low = log_in_two(tl.abs(x))
    exponent = _clamped(y, 1.0e30)
    upper = upper_half(exponent)
    product = upper * high  # exact
    rest = (exponent - upper) * high + exponent * low
    # Beyond 110 the result has overflowed, or is 0.
    total = _clamped(product + rest, 110.0)
    times = (total * 1.4426950408889634 + _ROUND) - _ROUND
    remaining = (_clamped(product, 150.0) - times * _LN_2_HIGH) + (rest - times * _LN_2_LOW)
    remaining = tl.where(tl.abs(total) >= 110.0, 0.0, remaining)
    half = (times * 0.5).to(tl.int32)
    other = times.to(tl.int32) - half
    scale = ((half + 127) << 23).to(tl.float32, bitcast=True)
    other_scale = ((other + 127) << 23).to(tl.float32, bitcast=True)
    result = tl.exp(remaining) * scale * other_scale

    infinite = float("inf")
    nan = float("nan")
    magnitude = tl.abs(x)
    y_magnitude = tl.abs(y)
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(0.5 * y) * 2.0 != y)
    negative = x.to(tl.int32, bitcast=True) < 0
    # Zero and infinity to a power that is not zero: zero or infinity.
    grows = (magnitude > 1.0) == (y > 0.0)
    at_end = (magnitude == 0.0) | (magnitude == infinite) | (y_magnitude == infinite)
    result = tl.where(at_end, tl.where(grows, infinite, 0.0), result)
    result = tl.where((magnitude == 1.0) & (y == y), 1.0, result)
    result = tl.where(negative & odd, result * -1.0, result)
    bad = (x < 0.0) & ~whole & (magnitude != infinite) & (y_magnitude != infinite)
    result = tl.where(bad | (x != x) | (y != y), nan, result)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, result)

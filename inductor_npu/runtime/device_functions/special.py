"""Error functions of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .logarithm import upper_half, without_last_bit
from .rounding import with_sign_of


@triton.jit
def _log_of_scaled_erfc(t: tl.tensor) -> tl.tensor:
    """log(erfcx(z) / t) with t = 1 / (1 + z / 2), z not negative (Press et al., Numerical Recipes, erfcc).

    The relative error of erfcx is below 1.2e-7.
    """
    series = t * 0.17087277 - 0.82215223
    series = series * t + 1.48851587
    series = series * t - 1.13520398
    series = series * t + 0.27886807
    series = series * t - 0.18628806
    series = series * t + 0.09678418
    series = series * t + 0.37409196
    series = series * t + 1.00002368
    return series * t - 1.26551223


@triton.jit
def _erfc_beyond_half(z: tl.tensor) -> tl.tensor:
    """erfc(z) for z from 0.47 to 10.5: exp(-z^2) P / (1 + 2 z), where P lies between 1.12 and 1.28.

    What the roundings of z^2 and of the divisor have lost goes into P, before P itself is rounded.
    """
    upper = upper_half(z)
    square = without_last_bit(z * z)
    lost = (upper * upper - square) + (z - upper) * (z + upper)
    twice = z + z
    divisor = 1.0 + twice
    lost = lost + (twice - (divisor - 1.0)) / divisor
    t = (z - 2.0) / (z + 2.0)
    series = t * -0.0012959413 + 0.00093991193
    series = series * t + 0.00868103188
    series = series * t - 0.00794342067
    series = series * t - 0.0542162471
    series = series * t + 0.164042011
    series = series * t - 0.166030407
    series = series * t - 0.0927635878
    series = series * t
    numerator = (series - (series + 1.27697837) * lost) + 1.27697837
    return tl.exp(square * -1.0) * (numerator / divisor)


@triton.jit
def erfc(x: tl.tensor) -> tl.tensor:
    """1 - erf(x), with all digits where that is small."""
    z = tl.minimum(tl.abs(x), 10.5, propagate_nan=tl.PropagateNan.ALL)
    far = _erfc_beyond_half(z)
    square = x * x
    series = square * 0.00471799588 - 0.0267571863
    series = series * square + 0.112828225
    series = series * square - 0.376126081
    series = series * square + 1.12837911
    return tl.where(z < 0.47, 1.0 - series * x, tl.where(x < 0.0, 2.0 - far, far))


@triton.jit
def erfcx(x: tl.tensor) -> tl.tensor:
    """exp(x^2) erfc(x)."""
    z = tl.abs(x)
    t = 1.0 / (1.0 + 0.5 * z)
    value = t * tl.exp(_log_of_scaled_erfc(t))
    bounded = tl.minimum(z, 20.0, propagate_nan=tl.PropagateNan.ALL)
    upper = upper_half(bounded)
    square = tl.exp(upper * upper) * tl.exp((bounded - upper) * (bounded + upper))
    return tl.where(x < 0.0, 2.0 * square - value, value)


@triton.jit
def erfinv(x: tl.tensor) -> tl.tensor:
    """The inverse of erf; infinite at 1 and -1, NaN beyond.

    Polynomials of Giles' form (Approximating the erfinv function), of w = -log(1 - x^2) and of its root.
    """
    w = -1.0 * tl.log((1.0 - x) * (1.0 + x))
    near = w - 1.25
    series = near * -8.79332429e-09 + 1.22154916e-07
    series = series * near - 2.60723851e-07
    series = series * near - 5.08296171e-06
    series = series * near + 3.10580253e-05
    series = series * near + 0.000143691635
    series = series * near - 0.0022537082
    series = series * near + 0.00251162238
    series = series * near + 0.249519616
    series = series * near
    far = tl.sqrt_rn(w) - 3.0
    tail = far * 0.000128974905 - 0.000318736507
    tail = tail * far - 7.66289013e-05
    tail = tail * far + 0.00149587612
    tail = tail * far - 0.00358698913
    tail = tail * far + 0.00568316225
    tail = tail * far - 0.00763940765
    tail = tail * far + 0.00944568682
    tail = tail * far + 1.00167513
    tail = tail * far
    is_near = w < 5.0
    series = tl.where(is_near, series, tail)
    constant = tl.where(is_near, 1.1895616, 2.8329768)
    factor = series + constant
    lost = (series - (factor - constant)) - 2.5e-08  # which both constants are too large by
    magnitude = tl.abs(x)
    value = tl.where(magnitude == 1.0, float("inf"), factor * magnitude + lost * magnitude)
    return with_sign_of(value, x)

"""Error functions of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .logarithm import upper_half, without_last_bit


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
    """The inverse of erf; infinite at 1 and -1, NaN beyond (Giles, Approximating the erfinv function)."""
    w = -1.0 * tl.log((1.0 - x) * (1.0 + x))
    near = w - 2.5
    series = near * 2.81022636e-08 + 3.43273939e-07
    series = series * near - 3.5233877e-06
    series = series * near - 4.39150654e-06
    series = series * near + 0.00021858087
    series = series * near - 0.00125372503
    series = series * near - 0.00417768164
    series = series * near + 0.246640727
    series = series * near + 1.50140941
    far = tl.sqrt_rn(w) - 3.0
    tail = far * -0.000200214257 + 0.000100950558
    tail = tail * far + 0.00134934322
    tail = tail * far - 0.00367342844
    tail = tail * far + 0.00573950773
    tail = tail * far - 0.0076224613
    tail = tail * far + 0.00943887047
    tail = tail * far + 1.00167406
    tail = tail * far + 2.83297682
    value = tl.where(w < 5.0, series, tail) * x
    return tl.where(tl.abs(x) == 1.0, x * float("inf"), value)

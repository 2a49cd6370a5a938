"""Error functions and the logarithm of the gamma function of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .elementary import upper_half
from .rounding import round_to_even

_PI = tl.constexpr(3.141592653589793)


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
def erfc(x: tl.tensor) -> tl.tensor:
    """1 - erf(x), with all digits where that is small."""
    z = tl.minimum(tl.abs(x), 20.0, propagate_nan=tl.PropagateNan.ALL)
    t = 1.0 / (1.0 + 0.5 * z)
    # The square in two parts: exp would turn its rounding error into a relative one.
    upper = upper_half(z)
    rest = (z - upper) * (z + upper)
    value = t * tl.exp(-upper * upper) * tl.exp(_log_of_scaled_erfc(t) - rest)
    return tl.where(x < 0.0, 2.0 - value, value)


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


@triton.jit
def lgamma(x: tl.tensor) -> tl.tensor:
    """log(abs(gamma(x))): Stirling's series from 3 on, below by gamma's recurrence, and by its reflection."""
    magnitude = tl.abs(x)
    small = magnitude < 3.0
    above = tl.where(small, magnitude + 3.0, magnitude)
    inverse = 1.0 / above
    square = inverse * inverse
    series = square * -5.952380952380953e-4 + 7.936507936507937e-4
    series = series * square - 2.777777777777778e-3
    series = series * square + 8.333333333333333e-2
    value = (above - 0.5) * (tl.log(above) - 1.0) + (series * inverse + 0.4189385332046727)
    steps = tl.where(small, magnitude * (magnitude + 1.0) * (magnitude + 2.0), 1.0)
    value = value - tl.log(steps)
    sine = tl.abs(tl.sin(_PI * (magnitude - round_to_even(magnitude))))
    reflected = -1.0 * (tl.log(sine * (1.0 / _PI)) + tl.log(magnitude)) - value
    infinite = float("inf")
    value = tl.where(x < 0.0, reflected, value)
    whole = (x <= 0.0) & (tl.floor(x) == x)
    return tl.where(whole | (magnitude == infinite), infinite, value)

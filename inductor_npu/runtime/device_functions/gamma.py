"""The logarithm of the gamma function of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .logarithm import log_in_two, upper_half

_TO_WHOLE = tl.constexpr(2.0**23)  # from here on every fp32 is a whole number


@triton.jit
def _near(magnitude: tl.tensor) -> tl.tensor:
    """log(gamma(x)) for x from 1 to 3, log(gamma(x + 1)) for x up to 1.

    log(gamma(2 + t)) / (t (1 + t)) is smooth from -1 to 1: the zeros at 1 and 2 are split off, and exact.
    """
    t = magnitude - tl.where(magnitude < 1.0, 1.0, 2.0)
    series = t * 1.93136984e-05 - 3.87410801e-05
    series = series * t + 2.02342781e-05
    series = series * t - 5.24002826e-05
    series = series * t + 0.000195816887
    series = series * t - 0.00042559093
    series = series * t + 0.000910496979
    series = series * t - 0.00210205279
    series = series * t + 0.004999483
    series = series * t - 0.0123849772
    series = series * t + 0.0329649448
    series = series * t - 0.10031727
    series = series * t + 7.08e-09
    factor = series + 0.422784328
    lost = series - (factor - 0.422784328)
    zeros = (t + 1.0) * t
    return factor * zeros + lost * zeros


@triton.jit
def _far(x: tl.tensor, high: tl.tensor, low: tl.tensor) -> tl.tensor:
    """log(gamma(x)) for x from 3 on, given log(x) in two parts: Stirling's series."""
    inverse = 1.0 / x
    square = inverse * inverse
    series = square * -0.000455699133 + 0.000784931588
    series = series * square - 0.00277759531
    series = series * square + 0.0833333358
    factor = x - 0.5
    upper = upper_half(factor)
    high = high - 1.0
    rest = (factor - upper) * high + factor * low
    return upper * high + (rest + (series * inverse + 0.4189385332046727))


@triton.jit
def _log_of_sine(x: tl.tensor) -> tl.tensor:
    """log(abs(sin(pi x)) / pi) for x not negative."""
    left = x - ((x + _TO_WHOLE) - _TO_WHOLE)
    square = left * left
    series = square * -0.00223523122 + 0.0261162091
    series = series * square - 0.190747619
    series = series * square + 0.811742187
    series = series * square - 1.64493406
    return tl.log(tl.abs(series * square * left + left))


@triton.jit
def lgamma(x: tl.tensor) -> tl.tensor:
    """log(abs(gamma(x))): a polynomial up to 3, then Stirling's series; by the reflection below 0.

    gamma(x) = gamma(x + 1) / x and gamma(-x) = -pi / (x sin(pi x) gamma(x)): of log(abs(x)) one is taken away where
    either holds, and where both do nothing.
    """
    magnitude = tl.abs(x)
    high, low = log_in_two(magnitude)
    value = tl.where(magnitude < 3.0, _near(magnitude), _far(magnitude, high, low))
    negative = x < 0.0
    value = tl.where(negative, value * -1.0 - _log_of_sine(magnitude), value)
    times = tl.where(negative == (magnitude < 1.0), 0.0, -1.0)
    value = (value + times * low) + times * high
    infinite = float("inf")
    whole = (x <= 0.0) & (tl.floor(x) == x)
    return tl.where(whole | (magnitude == infinite), infinite, value)

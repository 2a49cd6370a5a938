"""Error functions, logarithm of the gamma function and modified Bessel functions of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .elementary import upper_half
from .rounding import round_to_even, with_sign_of

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


# Chebyshev coefficients of Cephes (i0f, i1f): for exp(-x) I0(x) and exp(-x) I1(x) / x up to 8, and beyond for the
# functions times sqrt(x).
_I0_NEAR = tl.constexpr(
    (
        -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
        -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
        -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
        -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
        -3.04682672343198398683e-1, 6.76795274409476084995e-1,
    )
)  # fmt: skip
_I0_FAR = tl.constexpr(
    (
        3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7, 2.89137052083475648297e-6,
        6.88975834691682398426e-5, 3.36911647825569408990e-3, 8.04490411014108831608e-1,
    )
)  # fmt: skip
_I1_NEAR = tl.constexpr(
    (
        9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
        3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
        5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
        2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
        2.52587186443633654823e-1,
    )
)  # fmt: skip
_I1_FAR = tl.constexpr(
    (
        -3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7, -3.88256480887769039346e-6,
        -1.10588938762623716291e-4, -9.76109749136146840777e-3, 7.78576235018280120474e-1,
    )
)  # fmt: skip


@triton.jit
def _chebyshev(x: tl.tensor, coefficients: tl.constexpr) -> tl.tensor:
    """The sum of Chebyshev polynomials of x / 2, the highest coefficient first, half of the last (Clenshaw)."""
    before = x * 0.0
    last = before
    previous = before
    for index in tl.static_range(len(coefficients)):
        previous = before
        before = last
        last = x * before - previous + coefficients[index]
    return 0.5 * (last - previous)


@triton.jit
def bessel_i0(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 0."""
    z = tl.abs(x)
    near = _chebyshev(0.5 * tl.minimum(z, 8.0, propagate_nan=tl.PropagateNan.ALL) - 2.0, _I0_NEAR)
    divisor = tl.maximum(z, 8.0, propagate_nan=tl.PropagateNan.ALL)
    far = _chebyshev(32.0 / divisor - 2.0, _I0_FAR) / tl.sqrt_rn(divisor)
    return tl.exp(0.5 * z) * tl.where(z <= 8.0, near, far) * tl.exp(0.5 * z)


@triton.jit
def bessel_i1(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 1."""
    z = tl.abs(x)
    near = _chebyshev(0.5 * tl.minimum(z, 8.0, propagate_nan=tl.PropagateNan.ALL) - 2.0, _I1_NEAR) * z
    divisor = tl.maximum(z, 8.0, propagate_nan=tl.PropagateNan.ALL)
    far = _chebyshev(32.0 / divisor - 2.0, _I1_FAR) / tl.sqrt_rn(divisor)
    return with_sign_of(tl.exp(0.5 * z) * tl.where(z <= 8.0, near, far) * tl.exp(0.5 * z), x)

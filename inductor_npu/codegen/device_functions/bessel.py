"""Bessel functions of fp32.

J and Y up to 5: polynomials, with J's zero split off, so that it keeps its digits there. Beyond: Hankel's form,

    J(x) = sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)), Y(x) = sqrt(2 / (pi x)) (P sin(...) + Q cos(...)),

where the phase is an odd multiple of pi / 4, so that sine and cosine of x itself are enough: nothing is lost to the
difference. The polynomials interpolate at Chebyshev's nodes; their errors are below 2^-24.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rounding import with_sign_of

_BORDER = tl.constexpr(5.0)
_TWO_OVER_PI = tl.constexpr(0.6366197723675814)
_INVERSE_ROOT_OF_PI = tl.constexpr(0.5641895835477563)


@triton.jit
def _j0_near(u: tl.tensor) -> tl.tensor:
    """J0(x) / ((x - a) (x + a)) with its first zero a, for u = x^2 / 12.5 - 1."""
    series = u * 3.21978035e-07 - 6.34493927e-06
    series = series * u + 9.41442195e-05
    series = series * u - 0.00101338932
    series = series * u + 0.00737589458
    series = series * u - 0.0327778645
    series = series * u + 0.0743663013
    return series * u - 0.057280805


@triton.jit
def _j1_near(u: tl.tensor) -> tl.tensor:
    """J1(x) / (x (x - a) (x + a)) with its first positive zero a, for u = x^2 / 12.5 - 1."""
    series = u * 1.80327326e-08 - 4.00427979e-07
    series = series * u + 6.81466054e-06
    series = series * u - 8.59287538e-05
    series = series * u + 0.000755254063
    series = series * u - 0.004240226
    series = series * u + 0.0130907772
    return series * u - 0.0158759542


@triton.jit
def _y0_near(u: tl.tensor) -> tl.tensor:
    """Y0(x) - 2 / pi log(x) J0(x) for u = x^2 / 12.5 - 1."""
    series = u * -7.00739702e-06 + 0.000130602886
    series = series * u - 0.00180279324
    series = series * u + 0.0176348519
    series = series * u - 0.111516826
    series = series * u + 0.388516545
    series = series * u - 0.470576376
    series = series * u - 0.432655841
    return series * u + 0.483724862


@triton.jit
def _y1_near(u: tl.tensor) -> tl.tensor:
    """(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x for u = x^2 / 12.5 - 1."""
    series = u * 8.76370723e-06 - 0.000142242381
    series = series * u + 0.00166878395
    series = series * u - 0.0134329181
    series = series * u + 0.0663469583
    series = series * u - 0.1631203
    series = series * u + 0.0910865068
    return series * u + 0.139749393


@triton.jit
def _p0(u: tl.tensor) -> tl.tensor:
    """The series P of order 0 for u = 50 / x^2 - 1."""
    series = u * 3.12623428e-07 - 2.52751624e-06
    series = series * u + 3.4913468e-05
    series = series * u - 0.001327476
    return series * u + 0.998634756


@triton.jit
def _q0(u: tl.tensor) -> tl.tensor:
    """The series Q of order 0, times x, for u = 50 / x^2 - 1."""
    series = u * 2.11742143e-07 - 1.01906403e-06
    series = series * u + 6.23011874e-06
    series = series * u - 6.33569143e-05
    series = series * u + 0.00131421443
    return series * u - 0.123614967


@triton.jit
def _p1(u: tl.tensor) -> tl.tensor:
    """The series P of order 1 for u = 50 / x^2 - 1."""
    series = u * -3.63505393e-07 + 3.05541766e-06
    series = series * u - 4.577851e-05
    series = series * u + 0.00224144384
    return series * u + 1.00229061


@triton.jit
def _q1(u: tl.tensor) -> tl.tensor:
    """The series Q of order 1, times x, for u = 50 / x^2 - 1."""
    series = u * -2.38028804e-07 + 1.16661795e-06
    series = series * u - 7.36003221e-06
    series = series * u + 7.89473634e-05
    series = series * u - 0.00186485017
    return series * u + 0.373047441


@triton.jit
def _j0_up_to_border(x: tl.tensor) -> tl.tensor:
    return ((x - 2.404825448989868) - 1.08705905e-07) * (x + 2.404825448989868) * _j0_near(x * x * 0.08 - 1.0)


@triton.jit
def _j1_up_to_border(x: tl.tensor) -> tl.tensor:
    return ((x - 3.8317060470581055) - -7.68505932e-08) * (x + 3.8317060470581055) * x * _j1_near(x * x * 0.08 - 1.0)


@triton.jit
def bessel_j0(x: tl.tensor) -> tl.tensor:
    """The Bessel function of the first kind, order 0."""
    z = tl.abs(x)
    near = _j0_up_to_border(tl.minimum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL))
    inverse = 1.0 / tl.maximum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    u = 50.0 * inverse * inverse - 1.0
    sine = tl.sin(z)
    cosine = tl.cos(z)
    waves = _p0(u) * (sine + cosine) - _q0(u) * inverse * (sine - cosine)
    return tl.where(z <= _BORDER, near, _INVERSE_ROOT_OF_PI * tl.sqrt_rn(inverse) * waves)


@triton.jit
def bessel_j1(x: tl.tensor) -> tl.tensor:
    """The Bessel function of the first kind, order 1."""
    z = tl.abs(x)
    near = _j1_up_to_border(tl.minimum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL))
    inverse = 1.0 / tl.maximum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    u = 50.0 * inverse * inverse - 1.0
    sine = tl.sin(z)
    cosine = tl.cos(z)
    waves = _p1(u) * (sine - cosine) + _q1(u) * inverse * (sine + cosine)
    value = tl.where(z <= _BORDER, near, _INVERSE_ROOT_OF_PI * tl.sqrt_rn(inverse) * waves)
    return tl.where(x < 0.0, value * -1.0, value)


@triton.jit
def bessel_y0(x: tl.tensor) -> tl.tensor:
    """The Bessel function of the second kind, order 0: -infinite at 0, NaN below."""
    z = tl.minimum(x, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    near = _TWO_OVER_PI * tl.log(z) * _j0_up_to_border(z) + _y0_near(z * z * 0.08 - 1.0)
    inverse = 1.0 / tl.maximum(x, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    u = 50.0 * inverse * inverse - 1.0
    sine = tl.sin(x)
    cosine = tl.cos(x)
    waves = _p0(u) * (sine - cosine) + _q0(u) * inverse * (sine + cosine)
    return tl.where(x <= _BORDER, near, _INVERSE_ROOT_OF_PI * tl.sqrt_rn(inverse) * waves)


@triton.jit
def bessel_y1(x: tl.tensor) -> tl.tensor:
    """The Bessel function of the second kind, order 1: -infinite at 0, NaN below."""
    z = tl.minimum(x, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    near = _TWO_OVER_PI * (tl.log(z) * _j1_up_to_border(z) - 1.0 / z) + _y1_near(z * z * 0.08 - 1.0) * z
    inverse = 1.0 / tl.maximum(x, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    u = 50.0 * inverse * inverse - 1.0
    sine = tl.sin(x)
    cosine = tl.cos(x)
    waves = _q1(u) * inverse * (sine - cosine) - _p1(u) * (sine + cosine)
    near = tl.where(x == 0.0, float("-inf"), near)  # log(0) times 0 is none
    return tl.where(x <= _BORDER, near, _INVERSE_ROOT_OF_PI * tl.sqrt_rn(inverse) * waves)


# Sums of Chebyshev polynomials of x / 2 with the coefficients of Cephes (i0f, i1f), by Clenshaw's recurrence.


@triton.jit
def _i0_near(x: tl.tensor) -> tl.tensor:
    """exp(-z) I0(z) for z = 2 x + 4 up to 8."""
    odd = x * -1.30002501e-08 + 6.04699502e-08
    even = x * odd + 1.30002501e-08 - 2.67079385e-07
    odd = x * even - odd + 1.11738754e-06
    even = x * odd - even - 4.41673836e-06
    odd = x * even - odd + 1.64484481e-05
    even = x * odd - even - 5.75419501e-05
    odd = x * even - odd + 0.000188502885
    even = x * odd - even - 0.000576375575
    odd = x * even - odd + 0.00163947562
    even = x * odd - even - 0.00432431
    odd = x * even - odd + 0.0105464604
    even = x * odd - even - 0.0237374148
    odd = x * even - odd + 0.0493052842
    even = x * odd - even - 0.094901097
    odd = x * even - odd + 0.171620902
    even = x * odd - even - 0.304682672
    return 0.5 * (x * even - odd - odd + 0.676795274)


@triton.jit
def _i0_far(x: tl.tensor) -> tl.tensor:
    """exp(-z) sqrt(z) I0(z) for z = 32 / (x + 2) from 8 on."""
    odd = x * 3.39623203e-09 + 2.26666899e-08
    even = x * odd - 3.39623203e-09 + 2.04891859e-07
    odd = x * even - odd + 2.89137052e-06
    even = x * odd - even + 6.88975835e-05
    odd = x * even - odd + 0.00336911648
    return 0.5 * (x * odd - even - even + 0.804490411)


@triton.jit
def _i1_near(x: tl.tensor) -> tl.tensor:
    """exp(-z) I1(z) / z for z = 2 x + 4 up to 8."""
    odd = x * 9.38153739e-09 - 4.44505913e-08
    even = x * odd - 9.38153739e-09 + 2.00329475e-07
    odd = x * even - odd - 8.56872026e-07
    even = x * odd - even + 3.47025131e-06
    odd = x * even - odd - 1.32731637e-05
    even = x * odd - even + 4.78156511e-05
    odd = x * even - odd - 0.000161760816
    even = x * odd - even + 0.000512285956
    odd = x * even - odd - 0.00151357245
    even = x * odd - even + 0.00415642294
    odd = x * even - odd - 0.0105640849
    even = x * odd - even + 0.024726449
    odd = x * even - odd - 0.0529459812
    even = x * odd - even + 0.102643659
    odd = x * even - odd - 0.176416518
    return 0.5 * (x * odd - even - even + 0.252587186)


@triton.jit
def _i1_far(x: tl.tensor) -> tl.tensor:
    """exp(-z) sqrt(z) I1(z) for z = 32 / (x + 2) from 8 on."""
    odd = x * -3.83538039e-09 - 2.63146885e-08
    even = x * odd + 3.83538039e-09 - 2.51223624e-07
    odd = x * even - odd - 3.88256481e-06
    even = x * odd - even - 0.000110588939
    odd = x * even - odd - 0.00976109749
    return 0.5 * (x * odd - even - even + 0.778576235)


@triton.jit
def bessel_i0(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 0."""
    z = tl.abs(x)
    near = _i0_near(0.5 * tl.minimum(z, 8.0, propagate_nan=tl.PropagateNan.ALL) - 2.0)
    divisor = tl.maximum(z, 8.0, propagate_nan=tl.PropagateNan.ALL)
    far = _i0_far(32.0 / divisor - 2.0) / tl.sqrt_rn(divisor)
    return tl.exp(0.5 * z) * tl.where(z <= 8.0, near, far) * tl.exp(0.5 * z)


@triton.jit
def bessel_i1(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 1."""
    z = tl.abs(x)
    near = _i1_near(0.5 * tl.minimum(z, 8.0, propagate_nan=tl.PropagateNan.ALL) - 2.0) * z
    divisor = tl.maximum(z, 8.0, propagate_nan=tl.PropagateNan.ALL)
    far = _i1_far(32.0 / divisor - 2.0) / tl.sqrt_rn(divisor)
    return with_sign_of(tl.exp(0.5 * z) * tl.where(z <= 8.0, near, far) * tl.exp(0.5 * z), x)

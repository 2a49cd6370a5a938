"""Bessel functions of fp32.

J and Y up to 5: polynomials, with J's zero split off, so that it keeps its digits there. Beyond: Hankel's form,

    J(x) = sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)), Y(x) = sqrt(2 / (pi x)) (P sin(...) + Q cos(...)),

where the phase is an odd multiple of pi / 4, so that sine and cosine of x itself are enough: nothing is lost to the
difference. The polynomials interpolate at Chebyshev's nodes; their errors are below 2^-24.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .logarithm import upper_half, without_last_bit
from .rounding import copy_sign, with_sign_of

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
    return value * copy_sign(tl.full([], 1.0, tl.float32), x)  # an odd function, also at -0.0


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


# The modified functions: up to 5 polynomials of x^2 whose terms are all positive, beyond, those of 1 / x in
# I(x) = exp(x - 4) P / sqrt(x). The difference is exact, and the power of 4 in P lets the result overflow as late as it
# should.


@triton.jit
def _square_in_two(x: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """x^2 as a sum of two."""
    upper = upper_half(x)
    square = without_last_bit(x * x)
    return square, (upper * upper - square) + (x - upper) * (x + upper)


@triton.jit
def _lost_by_root(x: tl.tensor, root: tl.tensor, inverse: tl.tensor) -> tl.tensor:
    """By how much of itself sqrt(x) is larger than `root`, its rounding, given 1 / x."""
    upper = upper_half(root)
    lower = root - upper
    return (((x - upper * upper) - 2.0 * upper * lower) - lower * lower) * (0.5 * inverse)


@triton.jit
def _i0_near(x: tl.tensor) -> tl.tensor:
    """I0(x) for x up to 5; what is lost of x^2 counts by the derivative."""
    square, lost = _square_in_two(x)
    slope = square * 0.00247073825 + 0.0226864163
    slope = slope * square + 0.256747365
    series = square * 3.39776254e-12 + 4.33653807e-10
    series = series * square + 6.85057415e-08
    series = series * square + 6.77497201e-06
    series = series * square + 0.000434061192
    series = series * square + 0.0156249255
    series = series * square + 0.25000006
    return (series * square + slope * lost) + 1.0


@triton.jit
def _i0_far(inverse: tl.tensor, lost: tl.tensor) -> tl.tensor:
    """exp(4 - x) sqrt(x) I0(x) of 1 / x, for x from 5 on, less `lost` of it."""
    series = inverse * -1427.38159 + 893.76825
    series = series * inverse - 189.305191
    series = series * inverse + 23.1784668
    series = series * inverse + 0.470463663
    series = series * inverse + 1.56043386
    series = series * inverse + 2.72241044
    series = series * inverse - 3.9e-07
    return (series - (series + 21.7815113) * lost) + 21.7815113


@triton.jit
def _i1_near(x: tl.tensor) -> tl.tensor:
    """I1(x) / x for x up to 5; what is lost of x^2 counts by the derivative."""
    square, lost = _square_in_two(x)
    slope = square * 0.000280161708 + 0.00427305466
    slope = slope * square + 0.063363038
    series = square * 2.06510048e-13 + 3.14534128e-11
    series = series * square + 5.69362779e-09
    series = series * square + 6.77733055e-07
    series = series * square + 5.42558009e-05
    series = series * square + 0.00260416092
    series = series * square + 0.0625000075
    return (series * square + slope * lost) + 0.5


@triton.jit
def _i1_far(inverse: tl.tensor, lost: tl.tensor) -> tl.tensor:
    """exp(4 - x) sqrt(x) I1(x) of 1 / x, for x from 5 on, less `lost` of it."""
    series = inverse * 1569.82336 - 996.224792
    series = series * inverse + 212.451324
    series = series * inverse - 26.7014885
    series = series * inverse - 0.941481709
    series = series * inverse - 2.58613324
    series = series * inverse - 8.16773891
    series = series * inverse + 5.6e-07
    return (series - (series + 21.7815094) * lost) + 21.7815094


@triton.jit
def bessel_i0(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 0; NaN where `x` is infinite, as PyTorch's."""
    z = tl.abs(x)
    divisor = tl.maximum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    inverse = 1.0 / divisor
    root = tl.sqrt_rn(divisor)
    far = tl.exp(z - 4.0) * (_i0_far(inverse, _lost_by_root(divisor, root, inverse)) / root)
    return tl.where(z <= _BORDER, _i0_near(z), far)


@triton.jit
def bessel_i1(x: tl.tensor) -> tl.tensor:
    """The modified Bessel function of the first kind, order 1; NaN where `x` is infinite, as PyTorch's."""
    z = tl.abs(x)
    divisor = tl.maximum(z, _BORDER, propagate_nan=tl.PropagateNan.ALL)
    inverse = 1.0 / divisor
    root = tl.sqrt_rn(divisor)
    far = tl.exp(z - 4.0) * (_i1_far(inverse, _lost_by_root(divisor, root, inverse)) / root)
    return with_sign_of(tl.where(z <= _BORDER, _i1_near(z) * z, far), x)

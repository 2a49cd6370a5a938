"""Tangent and the inverse trigonometric functions of fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .rounding import with_sign_of

_PI = tl.constexpr(3.141592653589793)
_PI_EXCESS = tl.constexpr(8.742278000372485e-08)  # what pi in fp32 is too large by
_HALF_PI = tl.constexpr(1.5707963267948966)
_HALF_PI_EXCESS = tl.constexpr(4.371139000186241e-08)  # and pi/2


@triton.jit
def tan(x: tl.tensor) -> tl.tensor:
    """Tangent."""
    return tl.sin(x) / tl.cos(x)


@triton.jit
def _atan_to_one(x: tl.tensor) -> tl.tensor:
    """atan(x) for x from 0 to 1: the odd polynomial of degree 17 that CUDA's atanf has."""
    square = x * x
    series = square * 0.0028662257 - 0.0161657367
    series = series * square + 0.0429096138
    series = series * square - 0.0752896400
    series = series * square + 0.1065626393
    series = series * square - 0.1420889944
    series = series * square + 0.1999355085
    series = series * square - 0.3333314528
    return series * square * x + x


@triton.jit
def atan(x: tl.tensor) -> tl.tensor:
    """Inverse tangent, from -pi/2 to pi/2."""
    magnitude = tl.abs(x)
    far = magnitude > 1.0
    angle = _atan_to_one(tl.where(far, 1.0 / magnitude, magnitude))
    return with_sign_of(tl.where(far, _HALF_PI - (angle + _HALF_PI_EXCESS), angle), x)


@triton.jit
def atan2(y: tl.tensor, x: tl.tensor) -> tl.tensor:
    """The angle of the point (x, y), from -pi to pi, of the sign of `y`; the signs of zeros count."""
    x_magnitude = tl.abs(x)
    y_magnitude = tl.abs(y)
    larger = tl.maximum(x_magnitude, y_magnitude, propagate_nan=tl.PropagateNan.ALL)
    smaller = tl.minimum(x_magnitude, y_magnitude, propagate_nan=tl.PropagateNan.ALL)
    # Both zero: an angle of 0. Both infinite: of pi/4.
    ratio = tl.where(smaller == larger, tl.where(larger == 0.0, 0.0, 1.0), smaller / larger)
    angle = _atan_to_one(tl.where(larger != larger, larger, ratio))
    angle = tl.where(y_magnitude > x_magnitude, _HALF_PI - (angle + _HALF_PI_EXCESS), angle)
    angle = tl.where(x.to(tl.int32, bitcast=True) < 0, _PI - (angle + _PI_EXCESS), angle)
    return with_sign_of(tl.abs(angle), y)


@triton.jit
def _asin_to_half(x: tl.tensor, square: tl.tensor) -> tl.tensor:
    """asin(x) for x from 0 to 0.5415, given its square."""
    series = square * 0.0477723517 + 0.0208182838
    series = series * square + 0.0461586341
    series = series * square + 0.0748981163
    series = series * square + 0.166668862
    return series * square * x + x


@triton.jit
def asin(x: tl.tensor) -> tl.tensor:
    """Inverse sine; NaN beyond 1."""
    magnitude = tl.abs(x)
    far = magnitude > 0.5405  # beyond, the angle that is doubled is below 0.5
    square = tl.where(far, 0.5 * (1.0 - magnitude), x * x)
    angle = _asin_to_half(tl.where(far, tl.sqrt_rn(square), magnitude), square)
    rest = _HALF_PI - ((angle + angle) + _HALF_PI_EXCESS)
    return with_sign_of(tl.where(far, rest, angle), x)


@triton.jit
def acos(x: tl.tensor) -> tl.tensor:
    """Inverse cosine; NaN beyond 1."""
    magnitude = tl.abs(x)
    far = magnitude > 0.5
    square = tl.where(far, 0.5 * (1.0 - magnitude), x * x)
    angle = _asin_to_half(tl.where(far, tl.sqrt_rn(square), magnitude), square)
    twice = angle + angle
    near = _HALF_PI - with_sign_of(angle, x)
    return tl.where(far, tl.where(x < 0.0, _PI - twice, twice), near)


@triton.jit
def hypot(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """sqrt(x^2 + y^2) whose squares do not overflow; infinite if one of them is."""
    x = tl.abs(x)
    y = tl.abs(y)
    larger = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    smaller = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    ratio = smaller / tl.where(larger == 0.0, 1.0, larger)
    length = larger * tl.sqrt_rn(1.0 + ratio * ratio)
    infinite = float("inf")
    return tl.where((x == infinite) | (y == infinite), infinite, length)

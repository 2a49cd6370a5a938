"""erf and its family, gamma and Bessel functions.

erf in f32 is vector code. The rest is computed in f64, mostly by the C library a lane at a time, and rounded once.
"""

from __future__ import annotations

from . import coefficients as c
from .builder import Builder, Value
from .exponential import exp_of_moderate
from .formats import clamp
from .library import define


@define("erf", "f32", "f64")
def erf(b: Builder, x: Value) -> Value:
    if x.element == "f64":
        return b.per_lane("erf", "f64", x)
    a = clamp(b.abs(x), 0.0, 4.0)
    near = b.fma(a, b.polynomial_parallel(a * a, c.ERF_F32), a)
    far = 1.0 - exp_of_moderate(b, a * b.polynomial_parallel(a, c.LOG_ERFC_F32))
    return b.copysign((a < 1.0).select(near, far), x)

"""Square roots, rounding to integers, minima and maxima, and what classifies a number."""

from __future__ import annotations

from .builder import Builder, Value
from .library import define

FLOATS = ("f32", "f64")


@define("sqrt", *FLOATS)
def sqrt(b: Builder, x: Value) -> Value:
    return b.sqrt(x)


@define("rsqrt", *FLOATS)
def rsqrt(b: Builder, x: Value) -> Value:
    return 1.0 / b.sqrt(x)

"""Functions that generated kernels call, written in Triton's own operations: the same text under upstream's Triton on
the embedded NPU and under Ascend's on the chip.

Ascend's libdevice has few functions, in another module than the one that Inductor's kernels name, and several of them
lose digits. 64-bit integers and most integer divisions have no vector instruction. The functions here consist of
operations that Ascend's compiler turns into vector instructions. They take tiles of any shape as well as scalars.
"""

from __future__ import annotations

from inductor_npu.runtime.device_functions.reductions import (
    all_true,
    any_true,
    first_along,
    larger,
    largest,
    product,
    smaller,
    smallest,
)
from inductor_npu.runtime.device_functions.scans import (
    bucketize,
    cumulative,
    in_chunks,
    in_rows,
    last,
    nan_beyond,
    pick,
    positions,
    sort_values,
    sort_with_index,
)

from .bessel import bessel_i0, bessel_i1, bessel_j0, bessel_j1, bessel_y0, bessel_y1
from .division import (
    floor_divide,
    floor_remainder,
    small_quotient,
    small_remainder,
    truncating_divide,
    truncating_remainder,
)
from .elementary import acosh, asinh, atanh, cosh, expm1, log1p, power, sinh, tanh
from .float8 import to_e4m3fn, to_e5m2
from .gamma import lgamma
from .gathering import every, gather, index_from_start
from .int64 import (
    add_int64,
    at_most_int64,
    equal_int64,
    floor_divide_int64,
    less_int64,
    multiply_int64,
    remainder_int64,
    subtract_int64,
    truncating_remainder_int64,
    unequal_int64,
    where_int64,
)
from .integer_sums import int64_of_limbs, limb
from .integers import power_of_integer, shift_left, shift_right, to_byte
from .parts import frexp_exponent, frexp_mantissa, ldexp, nextafter
from .random import normal, random_integers, random_integers_below, uniform
from .rounding import copy_sign, fmod, remainder, round_to_even, truncate
from .special import erfc, erfcx, erfinv
from .trigonometric import acos, asin, atan, atan2, hypot, tan

__all__ = [
    "acos",
    "acosh",
    "add_int64",
    "all_true",
    "any_true",
    "asin",
    "asinh",
    "at_most_int64",
    "atan",
    "atan2",
    "atanh",
    "bessel_i0",
    "bessel_i1",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "bucketize",
    "copy_sign",
    "cosh",
    "cumulative",
    "equal_int64",
    "erfc",
    "erfcx",
    "erfinv",
    "every",
    "expm1",
    "first_along",
    "floor_divide",
    "floor_divide_int64",
    "floor_remainder",
    "fmod",
    "frexp_exponent",
    "frexp_mantissa",
    "gather",
    "hypot",
    "in_chunks",
    "in_rows",
    "index_from_start",
    "int64_of_limbs",
    "larger",
    "largest",
    "last",
    "ldexp",
    "less_int64",
    "lgamma",
    "limb",
    "log1p",
    "multiply_int64",
    "nan_beyond",
    "nextafter",
    "normal",
    "pick",
    "positions",
    "power",
    "power_of_integer",
    "product",
    "random_integers",
    "random_integers_below",
    "remainder",
    "remainder_int64",
    "round_to_even",
    "shift_left",
    "shift_right",
    "sinh",
    "small_quotient",
    "small_remainder",
    "smaller",
    "smallest",
    "sort_values",
    "sort_with_index",
    "subtract_int64",
    "tan",
    "tanh",
    "to_byte",
    "to_e4m3fn",
    "to_e5m2",
    "truncate",
    "truncating_divide",
    "truncating_remainder",
    "truncating_remainder_int64",
    "unequal_int64",
    "uniform",
    "where_int64",
]

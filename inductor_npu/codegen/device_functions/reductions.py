"""Functions that generated kernels call: Triton code in forms that Ascend's compiler vectorises and that keep PyTorch's
meaning of NaN.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def larger(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """The larger of two; NaN if either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """The smaller of two; NaN if either is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def largest(x: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """The largest along `dim`; NaN if one is."""
    return tl.reduce(x, dim, larger)


@triton.jit
def smallest(x: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """The smallest along `dim`; NaN if one is."""
    return tl.reduce(x, dim, smaller)


@triton.jit
def any_true(x: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """Whether one along `dim` is true. As numbers: a reduction of booleans ends in a scalar loop over the rows."""
    return tl.max(tl.where(x, 1.0, 0.0), dim) > 0.5

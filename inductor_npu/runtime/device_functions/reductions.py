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


@triton.jit
def all_true(x: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """Whether all along `dim` are true, as numbers like `any_true`."""
    return tl.min(tl.where(x, 1.0, 0.0), dim) > 0.5


@triton.jit
def _product_of_two(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a * b


@triton.jit
def product(x: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """The product along `dim`. Along rows Ascend's compiler multiplies the last 32 bytes of each one by one; along any
    other dimension it does not. So rows are cut in blocks of 8 that are multiplied with each other, and what is left
    of each row is turned.
    """
    length: tl.constexpr = x.shape[dim]
    rows: tl.constexpr = x.numel // length
    if dim + 1 < len(x.shape):
        result = tl.reduce(x, dim, _product_of_two)
    else:
        left = x
        if length > 8:
            left = tl.reduce(tl.reshape(x, [rows, length // 8, 8]), 1, _product_of_two)
        if len(x.shape) == 1:
            result = tl.reduce(tl.reshape(left, [left.numel]), 0, _product_of_two)
        else:
            result = tl.reduce(tl.permute(tl.reshape(left, [rows, left.numel // rows]), [1, 0]), 0, _product_of_two)
        if len(x.shape) == 3:
            result = tl.reshape(result, [x.shape[0], x.shape[1]])
    return result


@triton.jit
def first_along(like: tl.tensor, count: tl.tensor, length: tl.constexpr, inner: tl.constexpr) -> tl.tensor:
    """Whether each element of a tile in the shape of `like` is one of the first `count` along a dimension of `length`
    elements, with `inner` elements in all dimensions behind it.
    """
    place = (tl.arange(0, like.numel) >> tl.standard._log2(inner)) & (length - 1)
    return tl.reshape(place.to(tl.float32), like.shape) < count

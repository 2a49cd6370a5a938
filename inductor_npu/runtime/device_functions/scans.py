"""Scans, sorts and searches of tiles, for generated kernels to call.

Ascend's compiler has a vector form for running sums and products along the first axis of a tile. Every other scan, and
every sort that also returns positions, becomes a loop over single elements. Here they are loops over whole tiles: in
step k a masked reduction selects one element of each row, and all rows advance together.

A tile is scanned along `dim`, which is its first or its last dimension; all dimensions are powers of two.
"""

from __future__ import annotations

import triton
import triton.language as tl

from inductor_npu.runtime.device_functions.reductions import largest


@triton.jit
def _pick(x: tl.tensor, here: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    return largest(tl.where(here, x, float("-inf")), dim)  # a sum would make 0.0 of -0.0


@triton.jit
def pick(x: tl.tensor, here: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """The element of `x` at the one place along `dim` where `here` holds."""
    bits: tl.constexpr = x.dtype.primitive_bitwidth
    if x.dtype.is_floating():
        picked = _pick(x, here, dim)
    elif bits < 32:  # sums of integers along rows are scalar at the end of each
        picked = _pick(x.to(tl.float32), here, dim).to(tl.int32).to(x.dtype)
    elif bits == 32:
        upper = _pick((x.to(tl.int32) >> 16).to(tl.float32), here, dim).to(tl.int32)
        lower = _pick((x.to(tl.int32) & 0xFFFF).to(tl.float32), here, dim).to(tl.int32)
        picked = ((upper << 16) | lower).to(x.dtype)
    else:  # no vector form
        picked = tl.sum(tl.where(here, x, 0), dim).to(x.dtype)
    return picked


@triton.jit
def in_rows(x: tl.tensor, like: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """`x` in two dimensions, for a tile of the shape of `like`: (rows, length), or (length, rows) where `dim` is not
    the last.
    """
    length: tl.constexpr = like.shape[dim]
    if dim + 1 == len(like.shape):
        rows = tl.reshape(x, [like.numel // length, length])
    else:
        rows = tl.reshape(x, [length, like.numel // length])
    return rows


@triton.jit
def in_chunks(x: tl.tensor, dim: tl.constexpr, chunk: tl.constexpr) -> tl.tensor:
    """Rows cut in chunks: (rows * chunks, chunk), or (chunks, chunk, rows) where `dim` is not the last."""
    length: tl.constexpr = x.shape[dim]
    if dim + 1 == len(x.shape):
        chunks = tl.reshape(x, [x.numel // chunk, chunk])
    else:
        chunks = tl.reshape(x, [length // chunk, chunk, x.numel // length])
    return chunks


@triton.jit
def positions(like: tl.tensor, dim: tl.constexpr, period: tl.constexpr) -> tl.tensor:
    """Each element's position along `dim`, modulo `period`, in a flat tile; float32, in which Ascend compares fastest.

    Not an index that is broadcast: along the first dimension that would be a column, which takes a block an element.
    """
    flat = tl.arange(0, like.numel)
    if dim + 1 < len(like.shape):
        flat = flat >> tl.standard._log2(like.numel // like.shape[dim])
    return (flat & (period - 1)).to(tl.float32)


@triton.jit
def _sum(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a + b


@triton.jit
def _product(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a * b


@triton.jit
def _along_first(x: tl.tensor, multiplies: tl.constexpr) -> tl.tensor:
    if multiplies:
        result = tl.associative_scan(x, 0, _product)
    else:
        result = tl.associative_scan(x, 0, _sum)
    return result


@triton.jit
def _before_chunks(x: tl.tensor, chunks: tl.constexpr, multiplies: tl.constexpr) -> tl.tensor:
    """What the columns of `x` before each, among `chunks` neighbours, come to: (columns,)."""
    columns: tl.constexpr = x.shape[1]
    flat = tl.arange(0, columns * columns)
    other, column = flat >> tl.standard._log2(columns), flat & (columns - 1)
    is_before = (other < column) & (other >= (column & -chunks))
    is_before = tl.reshape(is_before, [columns, columns])
    if multiplies:
        totals = tl.expand_dims(tl.reduce(x, 0, _product), 1)
        result = tl.reduce(tl.where(is_before, totals, 1).to(x.dtype), 0, _product)
    else:
        totals = tl.expand_dims(tl.sum(x, 0), 1)
        result = tl.sum(tl.where(is_before, totals, 0).to(x.dtype), 0)
    return result.to(x.dtype)


@triton.jit
def cumulative(x: tl.tensor, dim: tl.constexpr, multiplies: tl.constexpr) -> tl.tensor:
    """A running sum, or product, along `dim`: along the first dimension of a tile that is turned if need be.

    A tile of few rows is cut in chunks, so that the rows of the turned tile are blocks of 32 bytes.
    """
    length: tl.constexpr = x.shape[dim]
    rows: tl.constexpr = x.numel // length
    if dim + 1 < len(x.shape):
        result = _along_first(x, multiplies)
    else:
        chunks: tl.constexpr = 1 if rows >= 8 or length < 8 else 8
        turned = tl.permute(tl.reshape(x, [rows * chunks, length // chunks]), [1, 0])
        result = _along_first(turned, multiplies)
        if chunks > 1:
            before = tl.expand_dims(_before_chunks(turned, chunks, multiplies), 0)
            result = before * result if multiplies else before + result
        result = tl.reshape(tl.permute(result, [1, 0]), x.shape)
    return result


@triton.jit
def last(x: tl.tensor, count: tl.tensor, dim: tl.constexpr) -> tl.tensor:
    """The last of the first `count` elements of `x` along `dim`, or of all if there are fewer."""
    n = tl.reshape(positions(x, dim, x.shape[dim]), x.shape)
    return pick(x, n == tl.minimum(count, x.shape[dim]) - 1, dim)


@triton.jit
def sort_with_index(
    x: tl.tensor, index: tl.tensor, length: tl.tensor, dim: tl.constexpr, descending: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """The first `length` elements of `x` along `dim` in order, and `index` in the same order. Equal elements stay in
    order; NaN is larger than all others.

    An element's place is the number of elements that belong before it. NaN counts as inf that comes after, or in
    descending order before, all other elements that are inf.
    """
    axis: tl.constexpr = 1 if dim + 1 == len(x.shape) else 0
    rows = in_rows(x, x, dim)
    indices = in_rows(index, x, dim)
    n = in_rows(positions(x, dim, x.shape[dim]), x, dim)
    key, order = rows, n
    if x.dtype.is_floating():
        # Tests for NaN are made on the tile: one on what was picked, a value a row, would be scalar.
        key = tl.where(rows == rows, rows, float("inf"))
        order = tl.where(rows == rows, n, n - x.shape[dim] if descending else n + x.shape[dim])
    place = tl.zeros(rows.shape, tl.float32)
    for k in range(length):
        other = tl.expand_dims(pick(key, n == k, axis), axis)
        other_order = k
        if x.dtype.is_floating():
            other_order = tl.expand_dims(pick(order, n == k, axis), axis)
        before = other > key if descending else other < key
        before = before | ((other == key) & (order > other_order))
        place = place + tl.where(before, 1.0, 0.0)
    place = tl.where(n < length, place, -1.0)
    sorted_rows = rows
    sorted_indices = indices
    for k in range(length):
        here = place == k
        sorted_rows = tl.where(n == k, tl.expand_dims(pick(rows, here, axis), axis), sorted_rows)
        sorted_indices = tl.where(n == k, tl.expand_dims(pick(indices, here, axis), axis), sorted_indices)
    return tl.reshape(sorted_rows, x.shape), tl.reshape(sorted_indices, x.shape)


@triton.jit
def sort_values(x: tl.tensor, length: tl.tensor, dim: tl.constexpr, descending: tl.constexpr) -> tl.tensor:
    """The first `length` elements of `x` along `dim` in order; NaN is larger than all others."""
    values, _ = sort_with_index(x, tl.zeros(x.shape, tl.int32), length, dim, descending)
    return values


@triton.jit
def bucketize(
    x: tl.tensor,
    boundaries: tl.tensor,
    first: tl.tensor,
    mask: tl.tensor,
    length: tl.tensor,
    stride: tl.tensor,
    dtype: tl.constexpr,
    right: tl.constexpr,
) -> tl.tensor:
    """How many of the `length` ascending boundaries from `boundaries + first` on lie below each element of `x`, or with
    `right` not above it; NaN lies above all.

    Every boundary is compared with the whole tile: a binary search would load an element of memory for each lane.
    """
    count = tl.zeros((x + first).shape, tl.int32)
    for k in range(length):
        bound = tl.load(boundaries + (first + k * stride), mask)
        if right:
            below = x >= bound
        else:
            below = x > bound
        if x.dtype.is_floating():
            below = below | (x != x)
        count = count + tl.where(below, 1, 0)
    return count.to(dtype)


@triton.jit
def nan_beyond(place: tl.tensor, x: tl.tensor, length: tl.tensor) -> tl.tensor:
    """`place`, the positions of `x` among `length` ascending boundaries, with NaN beyond all of them as PyTorch has it.
    The search of Inductor's own (triton_helpers.bucketize_binary_search) puts NaN before them in torch 2.11.
    """
    if x.dtype.is_floating():
        place = tl.where(x != x, length, place).to(place.dtype)
    return place

"""`inductor_npu.runtime.device_functions` where the device is a GPU: functions that are written in vector instructions
of an NPU, and that a GPU has instructions for, are those instructions. All others are the same.

The names, arguments and results are those of the functions that they stand for.
"""

# Taking the place of what is imported from the portable ones is what this file is for.
# mypy: disable-error-code="no-redef"

from __future__ import annotations

import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.language.extra.cuda import libdevice

from ...runtime import device_functions as _portable
from ...runtime.device_functions import *  # noqa: F403 - what a GPU has nothing better for

_sort_any = _portable.sort_with_index
_values_of_any = _portable.sort_values


@triton.jit
def uniform(seed: tl.tensor, offset: tl.tensor) -> tl.tensor:
    return tl.rand(seed, offset.to(tl.uint32))


@triton.jit
def normal(seed: tl.tensor, offset: tl.tensor) -> tl.tensor:
    return tl.randn(seed, offset.to(tl.uint32))


@triton.jit
def random_integers(seed: tl.tensor, offset: tl.tensor, low: tl.tensor, high: tl.tensor) -> tl.tensor:
    first, second, _, _ = tl.randint4x(seed, offset.to(tl.uint32))
    bits = (second.to(tl.uint64) << 32) | first.to(tl.uint32, bitcast=True).to(tl.uint64)
    return (bits % (high - low).to(tl.uint64)).to(tl.int64) + low


@triton.jit
def random_integers_below(seed: tl.tensor, offset: tl.tensor, size: tl.constexpr) -> tl.tensor:
    return random_integers(seed, offset, 0, tl.full([], size, tl.int64)).to(tl.int32)


@triton.jit
def sort_with_index(
    x: tl.tensor, index: tl.tensor, length: tl.tensor, dim: tl.constexpr, descending: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    is_last: tl.constexpr = dim + 1 == len(x.shape)
    if is_last:
        # What is beyond the row is known by its index, which may have been loaded: 0 there.
        index = tl.where(tl.arange(0, x.shape[dim]) < length, index, tl.full([], length, index.dtype))
        values, places = triton_helpers.sort_with_index(x, index, length, dim, stable=True, descending=descending)
    else:
        values, places = _sort_any(x, index, length, dim, descending)
    return values, places


@triton.jit
def _last_of(x: tl.tensor, descending: tl.constexpr) -> tl.tensor:
    """What no element of the type of `x` comes after, as a number of that type."""
    if x.dtype.is_floating():
        last = tl.full([], float("-inf") if descending else float("nan"), x.dtype)
    elif x.dtype.is_int_signed():
        high: tl.constexpr = (1 << (x.dtype.primitive_bitwidth - 1)) - 1
        last = tl.full([], -high - 1 if descending else high, x.dtype)
    else:
        last = tl.full([], 0 if descending else (1 << x.dtype.primitive_bitwidth) - 1, x.dtype)
    return last


@triton.jit
def sort_values(x: tl.tensor, length: tl.tensor, dim: tl.constexpr, descending: tl.constexpr) -> tl.tensor:
    is_last: tl.constexpr = dim + 1 == len(x.shape)
    if is_last:
        # An order that need not be stable asks for no index, and what nobody uses is no code.
        x = tl.where(tl.arange(0, x.shape[dim]) < length, x, _last_of(x, descending))
        index = tl.zeros(x.shape, tl.int16)
        values, _ = triton_helpers.sort_with_index(x, index, None, dim, stable=False, descending=descending)
    else:
        values = _values_of_any(x, length, dim, descending)
    return values


@triton.jit
def tanh(x: tl.tensor) -> tl.tensor:
    return libdevice.tanh(x)


@triton.jit
def log1p(x: tl.tensor) -> tl.tensor:
    return libdevice.log1p(x)


@triton.jit
def expm1(x: tl.tensor) -> tl.tensor:
    return libdevice.expm1(x)


@triton.jit
def add_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) + y.to(tl.int64)


@triton.jit
def subtract_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) - y.to(tl.int64)


@triton.jit
def multiply_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) * y.to(tl.int64)


@triton.jit
def where_int64(condition: tl.tensor, x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return tl.where(condition, x.to(tl.int64), y.to(tl.int64))


@triton.jit
def equal_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) == y.to(tl.int64)


@triton.jit
def unequal_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) != y.to(tl.int64)


@triton.jit
def less_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) < y.to(tl.int64)


@triton.jit
def at_most_int64(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    return x.to(tl.int64) <= y.to(tl.int64)

"""Texts of operations in the form that the dtypes and the bounds of their operands allow; see `overrides`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_type
from torch._inductor.shape_propagation import broadcast_shapes_for_args
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.operands import (
    FLOATS8,
    HALVES,
    INT32,
    Operand,
    as_fp32,
    as_int32,
    as_int64,
    bounds_of,
    common_integer,
    dtype_of,
    fits_int32,
    from_int32,
    is_bool,
    is_float,
    is_tile,
    is_wide,
    known_truth,
    new_variable,
    truth_of,
    value_of,
    with_literals,
    within,
)
from inductor_npu.tiling.limits import LARGEST_DIVISOR_OF_INT64

# What sums and products of predicates are.
_OF_CONDITIONS = {"+": "|", "*": "&"}

_EXACT_IN_FP32 = 2**24 - 1  # up to here no fractional quotient of integers rounds to an integer in fp32


def sum_text(x: Operand, y: Operand, sign: str, by_limbs: str) -> Any:
    """Text of `x + y`, `x - y` or `x * y`. `by_limbs` names the function of device_functions for arbitrary int64.

    Inductor propagates bounds of indices only. Where int32 holds operands and result, the result is a variable with
    bounds. A sum of predicates, which Triton adds without a carry, is "or" and their product "and", as in eager.
    Floats of 8 bits are computed in fp32: chips differ in what lies beyond their range.
    """
    if sign in _OF_CONDITIONS and is_bool(x) and is_bool(y):
        return logic_text(_OF_CONDITIONS[sign], x, y)
    float8 = next((dtype for dtype in map(dtype_of, (x, y)) if dtype in FLOATS8), None)
    if float8 is not None:
        text = f"{as_fp32(x)} {sign} {as_fp32(y)}"
        return float8_text(new_variable(text, torch.float32, broadcast_shapes_for_args([x, y])), float8)
    if not is_wide(x, y):
        x, y = with_literals(x, y)
        return f"{x} {sign} {y}"
    bounds = _bounds(sign, x, y)
    if fits_int32(x, y) and bounds is not None and within(bounds, INT32.min, INT32.max):
        text = f"({as_int32(x)} {sign} {as_int32(y)}).to(tl.int64)"
        return new_variable(text, torch.int64, broadcast_shapes_for_args([x, y]), ValueRanges(*bounds))
    return f"device_functions.{by_limbs}({as_int64(x)}, {as_int64(y)})"


def _bounds(sign: str, x: Operand, y: Operand) -> tuple[int, int] | None:
    """The bounds of a sum, difference or product."""
    first, second = bounds_of(x), bounds_of(y)
    if first is None or second is None:
        return None
    operation = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[sign]
    corners = [operation(a, b) for a in first for b in second]
    return min(corners), max(corners)


def less_text(a: Operand, b: Operand) -> str:
    """Text of `a < b` for int64."""
    if fits_int32(a, b):
        return f"({as_int32(a)} < {as_int32(b)})"
    return f"device_functions.less_int64({as_int64(a)}, {as_int64(b)})"


def extreme_text(function: str, of_bools: str, a: Operand, b: Operand, is_a: Callable[[], str]) -> str:
    """Text of `tl.maximum` or `tl.minimum`; `is_a` gives the text of whether the result is `a`, for int64.

    NaN propagates in every case: that is the chip's instruction. Any other form is selections and comparisons around
    it.
    """
    if is_float(a) or is_float(b):
        return f"tl.{function}({a}, {b}, propagate_nan=tl.PropagateNan.ALL)"
    if is_bool(a) and is_bool(b):
        return f"({a} {of_bools} {b})"
    if not is_wide(a, b):
        return f"tl.{function}({a}, {b})"
    if fits_int32(a, b):
        return f"tl.{function}({as_int32(a)}, {as_int32(b)}).to(tl.int64)"
    return f"device_functions.where_int64({is_a()}, {as_int64(a)}, {as_int64(b)})"


def comparison_text(sign: str, a: Operand, b: Operand, of_int64: str, of_bools: str) -> Any:
    """Text of a comparison. `of_int64` names the function of device_functions for arbitrary int64, `of_bools` is the
    logic of two predicates.

    A comparison that the bounds of integers decide becomes a constant: in an argmax of known positions, which of two
    comes first.
    """
    if dtype_of(a) in FLOATS8 or dtype_of(b) in FLOATS8:
        return f"({as_fp32(a)} {sign} {as_fp32(b)})"
    if is_bool(a) and is_bool(b):
        return of_bools.format(a=a, b=b)
    holds = _decided(sign, bounds_of(a), bounds_of(b))
    if holds is not None:
        return known_truth(holds)
    if is_wide(a, b):
        if fits_int32(a, b):
            return f"({as_int32(a)} {sign} {as_int32(b)})"
        return "device_functions." + of_int64.format(a=as_int64(a), b=as_int64(b))
    if common_integer(a, b) is torch.int16:  # Ascend's compiler compares two int16 tiles element by element
        return f"({as_int32(a)} {sign} {as_int32(b)})"
    a, b = with_literals(a, b)
    return f"({a} {sign} {b})"


def _decided(sign: str, a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool | None:
    """Whether `a sign b` holds for all integers within these bounds, or for none; None if neither is known."""
    if a is None or b is None:
        return None
    if sign in (">", ">="):
        return _decided(sign.replace(">", "<"), b, a)
    if sign in ("==", "!="):
        if a[1] < b[0] or b[1] < a[0]:
            return sign == "!="
        return sign == "==" if a[0] == a[1] == b[0] == b[1] else None
    if a[1] < b[0] or (sign == "<=" and a[1] == b[0]):
        return True
    return False if b[1] < a[0] or (sign == "<" and b[1] == a[0]) else None


def logic_text(sign: str, a: Operand, b: Operand) -> Any:
    """Text of `a & b` or `a | b`, of predicates without those that are known."""
    for one, other in ((a, b), (b, a)):
        holds = truth_of(one)
        if holds is not None and is_bool(other):
            return known_truth(holds) if holds == (sign == "|") else other
    return f"{a} {sign} {b}"


def selection_text(mask: Operand, a: Operand, b: Operand) -> Any:
    """Text of `a` where `mask` holds, else `b`. Integers with known bounds keep them."""
    holds = truth_of(mask)
    if holds is not None and dtype_of(a) is not None and dtype_of(a) is dtype_of(b):
        return a if holds else b
    dtype = common_integer(a, b)
    first, second = with_literals(a, b)
    text = f"tl.where({mask}, {first}, {second})"
    if dtype is None or dtype is torch.bool:
        return text
    if not fits_int32(a, b):
        in_limbs = dtype is torch.int64 and any(map(is_tile, (mask, a, b)))
        return text if not in_limbs else f"device_functions.where_int64({mask}, {as_int64(a)}, {as_int64(b)})"
    if dtype is torch.int64:
        text = f"tl.where({mask}, {as_int32(a)}, {as_int32(b)}).to(tl.int64)"
    of_a, of_b = bounds_of(a), bounds_of(b)
    assert of_a is not None and of_b is not None, "integers have bounds"
    bounds = ValueRanges(min(of_a[0], of_b[0]), max(of_a[1], of_b[1]))
    return new_variable(text, dtype, broadcast_shapes_for_args([mask, a, b]), bounds)


def power_of_two(x: Operand) -> int | None:
    """The exponent of a constant power of two, None for anything else."""
    value = value_of(x)
    return value.bit_length() - 1 if value is not None and value > 0 and value & (value - 1) == 0 else None


def are_int32_tiles(a: Operand, b: Operand) -> bool:
    """Whether a division is one of tiles, and int32 holds both operands and the quotient."""
    dtype = common_integer(a, b)
    if dtype is None or not (is_tile(a) or is_tile(b)):
        return False
    return dtype is torch.int32 or (fits_int32(a, b) and within(bounds_of(a), -INT32.max, INT32.max))


def divides_in_fp32(a: Operand, b: Operand) -> bool:
    """Whether `//`, which Ascend computes in fp32, is exact for all values that `a` and `b` can have."""
    return all(within(bounds_of(x), -_EXACT_IN_FP32, _EXACT_IN_FP32) for x in (a, b))


def is_not_zero(x: Operand) -> bool:
    """Whether the bounds of integer `x` exclude 0."""
    bounds = bounds_of(x)
    return bounds is not None and (bounds[0] > 0 or bounds[1] < 0)


def floor_in_fp32(a: Operand, b: Operand) -> str:
    """Text of the quotient of integers that `divides_in_fp32`, rounded down, as int32."""
    if within(bounds_of(a), 0, _EXACT_IN_FP32) and within(bounds_of(b), 1, _EXACT_IN_FP32):
        return f"({as_int32(a)} // {as_int32(b)})"
    return f"tl.floor({as_fp32(a)} / {as_fp32(b)}).to(tl.int32)"


def remainder_of_int64(a: Operand, b: Operand, function: str) -> Any:
    """The remainder of int64 `a` by a constant that `device_functions.<function>` takes; None for any other divisor."""
    divisor = value_of(b)
    if divisor is None or not is_wide(a, b) or not is_tile(a):
        return None
    divisor = abs(divisor) if function.startswith("truncating") else divisor
    if not 0 < divisor <= LARGEST_DIVISOR_OF_INT64:
        return None
    assert isinstance(a, CSEVariable)
    least = 1 - divisor if function.startswith("truncating") else 0
    text = f"device_functions.{function}({a}, {divisor}).to(tl.int64)"
    return new_variable(text, torch.int64, a.shape, ValueRanges(least, divisor - 1))


def of_int32(text: str, *operands: Operand) -> str:
    """Text of the int32 expression `text` as the dtype to which the operands promote."""
    dtype = common_integer(*operands)
    assert dtype is not None, "operands of an integer operation have a dtype"
    return from_int32(text, dtype)


def shift_text(a: Operand, amount: Operand, sign: str, function: str) -> str:
    """Text of a shift. All bits are shifted out where the amount is negative or at least the number of bits: 0 is left,
    or the sign of a signed number that is shifted right.
    """
    dtype = common_integer(a, amount)
    assert dtype is not None, "operands of a shift are integers"
    bits, constant = dtype.itemsize * 8, value_of(amount)
    if constant is not None:
        whole = as_int64(a) if dtype is torch.int64 else a
        if not 0 <= constant < bits:
            if sign == "<<" or not dtype.is_signed:
                return f"{whole} * 0"
            constant = bits - 1  # copies of the sign
        if dtype is torch.int32 or not is_tile(a):
            return f"({whole} {sign} {constant})"
        if fits_int32(a) and (sign == ">>" or within(_bounds("*", a, 2**constant), INT32.min, INT32.max) or bits < 32):
            return from_int32(f"{as_int32(a)} {sign} {min(constant, 31)}", dtype)
        return f"({whole} {sign} {constant})"
    if (is_tile(a) or is_tile(amount)) and (dtype is torch.int32 or bits < 32):
        return from_int32(f"device_functions.{function}({as_int32(a)}, {as_int32(amount)})", dtype)
    return f"({a} {sign} {amount})"


@functools.cache
def _e4m3fn_saturates() -> bool:
    """Whether conversions beyond the range of float8_e4m3fn give the largest number, as from torch 2.13 on, or NaN."""
    return not torch.tensor(1e9).to(torch.float8_e4m3fn).float().isnan().item()


def float8_text(x: CSEVariable, dtype: torch.dtype) -> str:
    """Text of fp32 `x` as a float of 8 bits; beyond its range as eager operators of this torch have it."""
    if dtype is torch.float8_e4m3fn:
        return f"device_functions.to_e4m3fn({x}, {_e4m3fn_saturates()})"
    return f"device_functions.to_e5m2({x})"


def function_text(
    name: str, upstream: Callable[..., Any], *operands: Operand, constants: Sequence[int | None] = ()
) -> Any:
    """A call of `device_functions.<name>`, which computes in fp32, with `constants` as its last arguments; for fp64
    Inductor's own form, `upstream`.
    """
    return _in_fp32(f"device_functions.{name}", upstream, operands, constants)


def triton_text(name: str, upstream: Callable[..., Any], *operands: Operand) -> Any:
    """A call of `tl.<name>` in fp32; for fp64 Inductor's own form, `upstream`."""
    return _in_fp32(f"tl.{name}", upstream, operands, ())


def _in_fp32(
    function: str, upstream: Callable[..., Any], operands: Sequence[Operand], constants: Sequence[int | None]
) -> Any:
    dtypes = [dtype_of(x) for x in operands]
    if torch.float64 in dtypes:
        return upstream(*operands)
    call = f"{function}({', '.join([*map(as_fp32, operands), *map(str, constants)])})"
    halves = [dtype for dtype in dtypes if dtype in HALVES]
    return f"{call}.to({triton_type(halves[0])})" if halves and torch.float32 not in dtypes else call


def bits_of_quotient(divisor: Operand) -> int:
    """How many bits a quotient of finite fp32 numbers by `divisor` can have before the binary point: 253, unless
    `divisor` is a constant.
    """
    bounds = divisor.bounds if isinstance(divisor, CSEVariable) else ValueRanges.wrap(divisor)
    if not bounds.is_singleton() or not 2.0**-126 <= abs(float(bounds.lower)) < math.inf:
        return 253
    return 127 - (math.frexp(float(bounds.lower))[1] - 1)

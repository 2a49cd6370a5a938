"""What is known of the operands of an elementwise operation: dtype, bounds, whether int32 holds them."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd import constant_repr
from torch._inductor.codegen.triton import triton_type
from torch._inductor.shape_propagation import BlockShapeType
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.values import copy_of, fact
from inductor_npu.tiling.limits import EXACT_IN_FLOAT32

Operand: TypeAlias = CSEVariable | int | float

INT32 = torch.iinfo(torch.int32)
HALVES = (torch.float16, torch.bfloat16)
# The floats of 8 bits that a kernel has.
FLOATS8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def dtype_of(x: Operand) -> torch.dtype | None:
    """The dtype of a variable; None for a Python number, which takes that of the other operand."""
    return x.dtype if isinstance(x, CSEVariable) else None


def is_float(x: Operand) -> bool:
    """Whether `x` is a floating-point variable or number."""
    dtype = dtype_of(x)
    return isinstance(x, float) if dtype is None else dtype.is_floating_point


def is_bool(x: Operand) -> bool:
    """Whether `x` is a variable of bool, or a Python bool."""
    return isinstance(x, bool) or dtype_of(x) is torch.bool


def is_zero(x: Operand) -> bool:
    """Whether `x` is a floating-point constant that equals 0."""
    if not isinstance(x, CSEVariable):
        return isinstance(x, float) and x == 0.0
    return is_float(x) and x.bounds.is_singleton() and float(x.bounds.lower) == 0.0


def is_tile(x: Operand) -> bool:
    """Whether `x` has several elements, or may have: a scalar has shape `()`."""
    return isinstance(x, CSEVariable) and x.shape != ()


def common_integer(*operands: Operand) -> torch.dtype | None:
    """The dtype to which integer operands promote; None if an operand is floating-point or all are Python numbers."""
    dtypes = [dtype for dtype in map(dtype_of, operands) if dtype is not None]
    if not dtypes or any(map(is_float, operands)):
        return None
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = torch.promote_types(common, dtype)
    return common


def is_wide(*operands: Operand) -> bool:
    """Whether an operation of `operands` is one of int64 tiles, which the chip has no vector instructions for."""
    return common_integer(*operands) is torch.int64 and any(map(is_tile, operands))


def bounds_of(x: Operand) -> tuple[int, int] | None:
    """The least and the largest value of integer `x`, as far as they are known; None if it is floating-point.

    Inductor's bounds are those of the mathematical value. A value that wrapped in a conversion to `x`'s dtype is
    outside of them, so they count only if they lie within the bounds of that dtype.
    """
    if is_float(x):
        return None
    if not isinstance(x, CSEVariable):
        return int(x), int(x)
    assert x.dtype is not None, "a variable of a Triton kernel has a dtype"
    if x.dtype is torch.bool:
        return 0, 1
    limits = torch.iinfo(x.dtype)
    lower, upper = x.bounds.lower, x.bounds.upper
    if x.bounds.is_bool or not (lower >= limits.min and upper <= limits.max):
        return limits.min, limits.max
    return int(lower), int(upper)


def truth_of(x: Operand) -> bool | None:
    """Whether a predicate holds, if that is known; see `known_truth`."""
    if isinstance(x, bool):
        return x
    if not isinstance(x, CSEVariable) or x.dtype is not torch.bool:
        return None
    return bool(x.bounds.lower) if x.bounds.is_bool and x.bounds.is_singleton() else None


def value_of(x: Operand) -> int | None:
    """The value of an integer constant, else None."""
    bounds = bounds_of(x)
    return bounds[0] if bounds is not None and bounds[0] == bounds[1] else None


def within(bounds: tuple[int, int] | None, lower: int, upper: int) -> bool:
    """Whether `bounds` are known and lie from `lower` to `upper`."""
    return bounds is not None and lower <= bounds[0] and bounds[1] <= upper


def fits_int32(*operands: Operand) -> bool:
    """Whether int32 holds every value that each of `operands` can have."""
    return all(within(bounds_of(x), INT32.min, INT32.max) for x in operands)


def as_int32(x: Operand) -> str:
    """Text of integer `x` as int32."""
    if not isinstance(x, CSEVariable):
        return f"tl.full([], {int(x)}, tl.int32)"
    return f"{x}" if x.dtype is torch.int32 else f"{x}.to(tl.int32)"


def as_int64(x: Operand) -> str:
    """Text of integer `x` as int64; an index may be a variable of int32."""
    if not isinstance(x, CSEVariable):
        return f"tl.full([], {int(x)}, tl.int64)"
    return f"{x}" if x.dtype is torch.int64 else f"{x}.to(tl.int64)"


def as_fp32(x: Operand) -> str:
    """Text of `x` as fp32."""
    if not isinstance(x, CSEVariable):
        return f"tl.full([], {x!r}, tl.float32)"
    return f"{x}" if x.dtype is torch.float32 else f"{x}.to(tl.float32)"


def from_int32(text: str, dtype: torch.dtype) -> str:
    """Text of the int32 expression `text` as `dtype`."""
    return text if dtype is torch.int32 else f"({text}).to({triton_type(dtype)})"


def literal_of(number: bool | float | int, dtype: torch.dtype) -> str | None:
    """The literal of `number` that Triton takes for the same number of type `dtype` beside a value of that type; None
    if there is none.

    It gives a literal the other operand's type only if that is fp32 or int32 and holds the number; and it takes -0.0
    for 0 (`triton.language.semantic`, `to_tensor`).
    """
    if dtype is torch.int32 and isinstance(number, int) and not isinstance(number, bool):
        return constant_repr(number) if INT32.min <= number <= INT32.max else None
    if dtype is not torch.float32 or (isinstance(number, int) and abs(number) > EXACT_IN_FLOAT32):
        return None
    number = float(number)
    if number == 0.0:
        return constant_repr(number) if math.copysign(1.0, number) > 0 else None
    limits = torch.finfo(torch.float32)
    return constant_repr(number) if limits.tiny <= abs(number) <= limits.max else None


def with_literals(x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """The operands of an arithmetic operator, comparison or selection, with the literal of a constant instead of its
    name where the other one is a value of the same dtype.
    """

    def beside(operand: Operand, other: Operand) -> Operand:
        text = fact(operand, "literal")
        if text is None or fact(other, "literal") is not None or dtype_of(operand) is not dtype_of(other):
            return operand
        assert isinstance(operand, CSEVariable), "a number has no facts"
        return copy_of(operand, text, ())

    return beside(x, y), beside(y, x)


def new_variable(
    text: str, dtype: torch.dtype, shape: BlockShapeType, bounds: ValueRanges | None = None
) -> CSEVariable:
    """A variable of the kernel that is being generated: by CSE the one that `text` has already, or a new one."""
    known = ValueRanges.unknown() if bounds is None else bounds
    return V.kernel.cse.generate(V.kernel.compute, text, bounds=known, dtype=dtype, shape=shape)


def known_truth(holds: bool) -> CSEVariable:
    """The variable of a predicate that holds always, or never."""
    return new_variable(f"tl.full([], {holds}, tl.int1)", torch.bool, (), ValueRanges.wrap(holds))

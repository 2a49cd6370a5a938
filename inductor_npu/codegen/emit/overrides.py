"""Inductor's elementwise operations as Triton text that Ascend's compiler accepts, vectorises and computes correctly.

The text is the same for the chip and for the embedded NPU. It calls operations of `triton.language` and functions of
`device_functions`, not libdevice: Ascend's libdevice has other functions than Inductor expects, and several lose
digits. fp64, which only the embedded NPU has, is left to Inductor's own forms.

The chip has no vector arithmetic for integers of 64 bits. Where Inductor's bounds show that operands and result fit 32
bits, the arithmetic is done there; else limb by limb. Either way a variable has the dtype that Inductor gives it.
Scalars (shape `()`) belong to the scalar unit, which has all of this arithmetic: they keep the plain form.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import TritonKernelOverrides, triton_type
from torch._inductor.utils import upcast_compute_type
from torch._prims_common import dtype_to_type
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.emit.operand_forms import (
    are_int32_tiles,
    bits_of_quotient,
    comparison_text,
    divides_in_fp32,
    extreme_text,
    float8_text,
    floor_in_fp32,
    function_text,
    is_not_zero,
    less_text,
    logic_text,
    of_int32,
    power_of_two,
    remainder_of_int64,
    selection_text,
    shift_text,
    sum_text,
    triton_text,
)
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
    is_zero,
    literal_of,
    new_variable,
    value_of,
    with_literals,
    within,
)

_LARGEST_SIZE_BY_BYTES = 2**23  # of device_functions.random_integers_below


def _condition(x: Operand) -> Any:
    """`x` as a predicate: for a sum of predicates with a factor (`alpha`), Inductor passes the product as a number."""
    return x if is_bool(x) else f"({NpuKernelOverrides.ne(x, 0)})"


class NpuKernelOverrides(TritonKernelOverrides):
    """The text of each `ops.*` inside a kernel for an NPU.

    Methods take Inductor's variables (or Python numbers) and return Triton text, or a variable where dtype, shape or
    bounds differ from those that Inductor would propagate. Long, as each operator of Inductor is a method.
    """

    @staticmethod
    def _shaped_constant(value: Any, dtype: torch.dtype, shape: Any) -> str:
        """A constant. Triton takes the literal -0.0 for 0; torch 2.13 works around that, earlier versions do not."""
        computed = upcast_compute_type(dtype)
        if value == 0 and math.copysign(1.0, value) < 0 and computed in (torch.float32, torch.float64):
            bits = computed.itemsize * 8
            return f"tl.full({shape}, {1 << bits - 1:#x}, tl.uint{bits}).to({triton_type(computed)}, bitcast=True)"
        return TritonKernelOverrides._shaped_constant(value, dtype, shape)

    @classmethod
    def constant(cls, value: bool | float | int, dtype: torch.dtype) -> CSEVariable:
        """A scalar: it folds into the instruction, whatever the shape of the other operand."""
        if dtype in FLOATS8:
            number = cls.constant(value, torch.float32)
            return new_variable(float8_text(number, dtype), dtype, ())
        number = dtype_to_type(dtype)(value)
        finite = not isinstance(number, float) or math.isfinite(number)
        bounds = ValueRanges.wrap(number) if finite else ValueRanges.unknown()
        computed = upcast_compute_type(dtype)
        constant = new_variable(cls._shaped_constant(value, dtype, shape=[]), computed, (), bounds)
        constant.literal = literal_of(number, computed)
        return constant

    # --- conversions

    @staticmethod
    def to_dtype(
        x: Operand, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Any:
        """Conversions to small integers go through int32, as on the CPU; to bool they are comparisons with 0; from and
        to floats of 8 bits they go through fp32.
        """
        if isinstance(x, str):  # an index, of which only the text is known
            return TritonKernelOverrides.to_dtype(x, dtype, src_dtype, use_compute_types)
        if dtype_of(x) is not dtype and (dtype in FLOATS8 or dtype_of(x) in FLOATS8):
            number = new_variable(as_fp32(x), torch.float32, x.shape if isinstance(x, CSEVariable) else ())
            return float8_text(number, dtype) if dtype in FLOATS8 else NpuKernelOverrides.to_dtype(number, dtype)
        if dtype is torch.bool:
            return x if is_bool(x) else NpuKernelOverrides.ne(x, 0)
        if dtype in (torch.uint8, torch.int8) and is_tile(x) and not is_bool(x):
            return f"device_functions.to_byte({x}, {triton_type(dtype)})"
        if dtype in (torch.uint8, torch.int8, torch.int16) and is_float(x):
            return f"{x}.to(tl.int32).to({triton_type(dtype)})"
        bounds = bounds_of(x)
        if dtype is torch.int64 and bounds is not None and isinstance(x, CSEVariable) and x.dtype is not torch.int64:
            return new_variable(f"{x}.to(tl.int64)", dtype, x.shape, ValueRanges(*bounds))
        return TritonKernelOverrides.to_dtype(x, dtype, src_dtype, use_compute_types)

    @staticmethod
    def trunc_to_int(a: Operand, dtype: torch.dtype) -> Any:
        return NpuKernelOverrides.to_dtype(a, dtype)  # a conversion truncates

    # --- arithmetic

    @staticmethod
    def add(x: Operand, y: Operand) -> Any:
        return sum_text(x, y, "+", "add_int64")

    @staticmethod
    def sub(x: Operand, y: Operand) -> Any:
        if isinstance(x, CSEVariable) and x == y and is_float(x):
            # 0, and NaN for what is not finite. A difference could be fused with the product that x is, and would
            # return that product's rounding error.
            return f"({x} * 0.0 + 0.0)"
        return sum_text(x, y, "-", "subtract_int64")

    @staticmethod
    def mul(x: Operand, y: Operand) -> Any:
        return sum_text(x, y, "*", "multiply_int64")

    @staticmethod
    def truediv(x: Operand, y: Operand) -> Any:
        return TritonKernelOverrides.truediv(*with_literals(x, y))

    @staticmethod
    def neg(x: Operand) -> Any:
        if is_float(x):
            return f"({x} * -1.0)"  # Triton's minus is 0 - x: two instructions, and 0.0 for x = 0.0
        return NpuKernelOverrides.sub(0, x) if is_wide(x) else f"(-{x})"

    @staticmethod
    def abs(x: Operand) -> str:
        if dtype_of(x) in FLOATS8:
            return f"({x}.to(tl.int8, bitcast=True) & 0x7F).to({x}.dtype, bitcast=True)"
        if not is_wide(x):
            return f"tl.abs({x})"
        if within(bounds_of(x), -INT32.max, INT32.max):
            return f"tl.abs({as_int32(x)}).to(tl.int64)"
        return f"device_functions.where_int64({less_text(x, 0)}, {NpuKernelOverrides.neg(x)}, {x})"

    @staticmethod
    def relu(x: Operand) -> Any:
        dtype = dtype_of(x)
        assert dtype is not None, "a variable of a Triton kernel has a dtype"
        return NpuKernelOverrides.maximum(x, NpuKernelOverrides.constant(0, dtype))

    @staticmethod
    def maximum(a: Operand, b: Operand) -> Any:
        for x, limit in ((a, b), (b, a)):
            if is_zero(limit) and not is_zero(x):  # relu and clamp leave -0.0 as it is; the instruction makes it 0.0
                return NpuKernelOverrides.where(NpuKernelOverrides.lt(x, limit), limit, x)
        return extreme_text("maximum", "|", a, b, lambda: less_text(b, a))

    @staticmethod
    def minimum(a: Operand, b: Operand) -> Any:
        return extreme_text("minimum", "&", a, b, lambda: less_text(a, b))

    @staticmethod
    def sign(x: Operand) -> str:
        """1, 0 or -1; 0 for NaN."""
        dtype = dtype_of(x)
        assert dtype is not None, "a variable of a Triton kernel has a dtype"
        if dtype is torch.bool:
            return f"{x}"
        if dtype.is_floating_point:
            return f"tl.where({x} > 0, 1.0, tl.where({x} < 0, -1.0, 0.0)).to({triton_type(dtype)})"
        if is_wide(x) and not fits_int32(x):
            return f"({less_text(0, x)}.to(tl.int32) - {less_text(x, 0)}.to(tl.int32)).to(tl.int64)"
        return from_int32(f"tl.minimum(tl.maximum({as_int32(x)}, -1), 1)", dtype)

    @staticmethod
    def where(a: Operand, b: Operand, c: Operand) -> Any:
        return selection_text(a, b, c)

    # --- comparisons and logic

    @staticmethod
    def eq(a: Operand, b: Operand) -> Any:
        return comparison_text("==", a, b, "equal_int64({a}, {b})", "(~({a} ^ {b}))")

    @staticmethod
    def ne(a: Operand, b: Operand) -> Any:
        return comparison_text("!=", a, b, "unequal_int64({a}, {b})", "({a} ^ {b})")

    @staticmethod
    def lt(a: Operand, b: Operand) -> Any:
        return comparison_text("<", a, b, "less_int64({a}, {b})", "(~{a} & {b})")

    @staticmethod
    def le(a: Operand, b: Operand) -> Any:
        return comparison_text("<=", a, b, "at_most_int64({a}, {b})", "(~{a} | {b})")

    @staticmethod
    def gt(a: Operand, b: Operand) -> Any:
        return comparison_text(">", a, b, "less_int64({b}, {a})", "({a} & ~{b})")

    @staticmethod
    def ge(a: Operand, b: Operand) -> Any:
        return comparison_text(">=", a, b, "at_most_int64({b}, {a})", "({a} | ~{b})")

    @staticmethod
    def logical_and(a: Operand, b: Operand) -> Any:
        return logic_text("&", _condition(a), _condition(b))

    @staticmethod
    def logical_or(a: Operand, b: Operand) -> Any:
        return logic_text("|", _condition(a), _condition(b))

    @staticmethod
    def bitwise_and(a: Operand, b: Operand) -> Any:
        return logic_text("&", a, b)

    @staticmethod
    def bitwise_or(a: Operand, b: Operand) -> Any:
        return logic_text("|", a, b)

    @staticmethod
    def and_(a: Operand, b: Operand) -> Any:
        return logic_text("&", a, b)

    @staticmethod
    def or_(a: Operand, b: Operand) -> Any:
        return logic_text("|", a, b)

    @staticmethod
    def logical_not(a: Operand) -> str:
        return f"(~{a})" if is_bool(a) else NpuKernelOverrides.eq(a, 0)

    @staticmethod
    def isnan(x: Operand) -> str:
        return NpuKernelOverrides.ne(x, x) if is_float(x) else f"({x} != {x})"

    @staticmethod
    def isinf(x: Operand) -> str:
        return f'(tl.abs({x}) == float("inf"))'

    @staticmethod
    def signbit(x: Operand) -> str:
        """Whether the sign bit is set, also that of -0.0 and of NaN."""
        dtype = dtype_of(x)
        assert dtype is not None, "a variable of a Triton kernel has a dtype"
        if not dtype.is_floating_point:
            return NpuKernelOverrides.lt(x, 0)
        return f"({x}.to(tl.int{dtype.itemsize * 8}, bitcast=True) < 0)"

    # --- integer division and shifts

    @staticmethod
    def floordiv(a: Operand, b: Operand) -> Any:
        shift = power_of_two(b)
        if shift is not None and are_int32_tiles(a, b):
            return of_int32(f"{as_int32(a)} >> {shift}", a, b)
        if are_int32_tiles(a, b) and divides_in_fp32(a, b) and is_not_zero(b):
            return of_int32(floor_in_fp32(a, b), a, b)
        if are_int32_tiles(a, b):
            return of_int32(f"device_functions.floor_divide({as_int32(a)}, {as_int32(b)})", a, b)
        if is_wide(a, b):
            return f"device_functions.floor_divide_int64({as_int64(a)}, {as_int64(b)})"
        return TritonKernelOverrides.floordiv(a, b)

    @staticmethod
    def truncdiv(a: Operand, b: Operand) -> str:
        shift = power_of_two(b)
        if not are_int32_tiles(a, b):
            return f"{a} // {b}"
        if shift is not None and within(bounds_of(a), 0, INT32.max):
            return of_int32(f"{as_int32(a)} >> {shift}", a, b)
        if divides_in_fp32(a, b):
            return of_int32(f"{as_int32(a)} // {as_int32(b)}", a, b)
        return of_int32(f"device_functions.truncating_divide({as_int32(a)}, {as_int32(b)})", a, b)

    @staticmethod
    def mod(a: Operand, b: Operand) -> Any:
        """The remainder with the sign of `a`, as in C."""
        if is_float(a) or is_float(b):
            return NpuKernelOverrides.fmod(a, b)
        if not are_int32_tiles(a, b):
            return remainder_of_int64(a, b, "truncating_remainder_int64") or f"{a} % {b}"
        x, y = as_int32(a), as_int32(b)
        if power_of_two(b) is not None and within(bounds_of(a), 0, INT32.max):
            return of_int32(f"{x} & ({y} - 1)", a, b)
        if divides_in_fp32(a, b):
            return of_int32(f"{x} - ({x} // {y}) * {y}", a, b)
        return of_int32(f"device_functions.truncating_remainder({x}, {y})", a, b)

    @staticmethod
    def remainder(a: Operand, b: Operand) -> Any:
        """The remainder with the sign of `b`, as in Python."""
        if is_float(a) or is_float(b):
            return function_text("remainder", TritonKernelOverrides.remainder, a, b, constants=[bits_of_quotient(b)])
        if not are_int32_tiles(a, b):
            return remainder_of_int64(a, b, "remainder_int64") or TritonKernelOverrides.remainder(a, b)
        x, y = as_int32(a), as_int32(b)
        if power_of_two(b) is not None:
            return of_int32(f"{x} & ({y} - 1)", a, b)
        if divides_in_fp32(a, b) and is_not_zero(b):
            return of_int32(f"{x} - {floor_in_fp32(a, b)} * {y}", a, b)
        return of_int32(f"device_functions.floor_remainder({x}, {y})", a, b)

    @staticmethod
    def bitwise_left_shift(a: Operand, b: Operand) -> str:
        return shift_text(a, b, "<<", "shift_left")

    @staticmethod
    def bitwise_right_shift(a: Operand, b: Operand) -> str:
        return shift_text(a, b, ">>", "shift_right")

    # --- rounding

    @staticmethod
    def floor(x: Operand) -> Any:
        return triton_text("floor", TritonKernelOverrides.floor, x)

    @staticmethod
    def ceil(x: Operand) -> Any:
        return triton_text("ceil", TritonKernelOverrides.ceil, x)

    @staticmethod
    def trunc(x: Operand) -> Any:
        return function_text("truncate", TritonKernelOverrides.trunc, x)

    @staticmethod
    def round(x: Operand) -> Any:
        return function_text("round_to_even", TritonKernelOverrides.round, x)

    @staticmethod
    def copysign(x: Operand, y: Operand) -> Any:
        return function_text("copy_sign", TritonKernelOverrides.copysign, x, y)

    @staticmethod
    def fmod(a: Operand, b: Operand) -> Any:
        return function_text("fmod", TritonKernelOverrides.fmod, a, b, constants=[bits_of_quotient(b)])

    # --- functions that every Triton has

    @staticmethod
    def exp(x: Operand) -> Any:
        return triton_text("exp", TritonKernelOverrides.exp, x)

    @staticmethod
    def exp2(x: Operand) -> Any:
        return triton_text("exp2", TritonKernelOverrides.exp2, x)

    @staticmethod
    def log(x: Operand) -> Any:
        return triton_text("log", TritonKernelOverrides.log, x)

    @staticmethod
    def log2(x: Operand) -> Any:
        return triton_text("log2", TritonKernelOverrides.log2, x)

    @staticmethod
    def sqrt(x: Operand) -> Any:
        return triton_text("sqrt_rn", TritonKernelOverrides.sqrt, x)

    @staticmethod
    def rsqrt(x: Operand) -> Any:
        return triton_text("rsqrt", TritonKernelOverrides.rsqrt, x)

    @staticmethod
    def sin(x: Operand) -> Any:
        return triton_text("sin", TritonKernelOverrides.sin, x)

    @staticmethod
    def cos(x: Operand) -> Any:
        return triton_text("cos", TritonKernelOverrides.cos, x)

    @staticmethod
    def erf(x: Operand) -> Any:
        return triton_text("erf", TritonKernelOverrides.erf, x)

    # --- functions that Ascend's Triton lacks, or whose digits it loses

    @staticmethod
    def expm1(x: Operand) -> Any:
        return function_text("expm1", TritonKernelOverrides.expm1, x)

    @staticmethod
    def log1p(x: Operand) -> Any:
        return function_text("log1p", TritonKernelOverrides.log1p, x)

    @staticmethod
    def tanh(x: Operand) -> Any:
        return function_text("tanh", TritonKernelOverrides.tanh, x)

    @staticmethod
    def sinh(x: Operand) -> Any:
        return function_text("sinh", TritonKernelOverrides.sinh, x)

    @staticmethod
    def cosh(x: Operand) -> Any:
        return function_text("cosh", TritonKernelOverrides.cosh, x)

    @staticmethod
    def asinh(x: Operand) -> Any:
        return function_text("asinh", TritonKernelOverrides.asinh, x)

    @staticmethod
    def acosh(x: Operand) -> Any:
        return function_text("acosh", TritonKernelOverrides.acosh, x)

    @staticmethod
    def atanh(x: Operand) -> Any:
        return function_text("atanh", TritonKernelOverrides.atanh, x)

    @staticmethod
    def tan(x: Operand) -> Any:
        return function_text("tan", TritonKernelOverrides.tan, x)

    @staticmethod
    def atan(x: Operand) -> Any:
        return function_text("atan", TritonKernelOverrides.atan, x)

    @staticmethod
    def asin(x: Operand) -> Any:
        return function_text("asin", TritonKernelOverrides.asin, x)

    @staticmethod
    def acos(x: Operand) -> Any:
        return function_text("acos", TritonKernelOverrides.acos, x)

    @staticmethod
    def erfc(x: Operand) -> Any:
        return function_text("erfc", TritonKernelOverrides.erfc, x)

    @staticmethod
    def erfcx(x: Operand) -> Any:
        return function_text("erfcx", TritonKernelOverrides.erfcx, x)

    @staticmethod
    def erfinv(x: Operand) -> Any:
        return function_text("erfinv", TritonKernelOverrides.erfinv, x)

    @staticmethod
    def lgamma(x: Operand) -> Any:
        return function_text("lgamma", TritonKernelOverrides.lgamma, x)

    @staticmethod
    def i0(x: Operand) -> Any:
        return function_text("bessel_i0", TritonKernelOverrides.i0, x)

    @staticmethod
    def i1(x: Operand) -> Any:
        return function_text("bessel_i1", TritonKernelOverrides.i1, x)

    @staticmethod
    def modified_bessel_i0(x: Operand) -> Any:
        return function_text("bessel_i0", TritonKernelOverrides.modified_bessel_i0, x)

    @staticmethod
    def modified_bessel_i1(x: Operand) -> Any:
        return function_text("bessel_i1", TritonKernelOverrides.modified_bessel_i1, x)

    @staticmethod
    def bessel_j0(x: Operand) -> Any:
        return function_text("bessel_j0", TritonKernelOverrides.bessel_j0, x)

    @staticmethod
    def bessel_j1(x: Operand) -> Any:
        return function_text("bessel_j1", TritonKernelOverrides.bessel_j1, x)

    @staticmethod
    def bessel_y0(x: Operand) -> Any:
        return function_text("bessel_y0", TritonKernelOverrides.bessel_y0, x)

    @staticmethod
    def bessel_y1(x: Operand) -> Any:
        return function_text("bessel_y1", TritonKernelOverrides.bessel_y1, x)

    @staticmethod
    def atan2(x: Operand, y: Operand) -> Any:
        return function_text("atan2", TritonKernelOverrides.atan2, x, y)

    @staticmethod
    def hypot(x: Operand, y: Operand) -> Any:
        return function_text("hypot", TritonKernelOverrides.hypot, x, y)

    @staticmethod
    def sigmoid(x: Operand) -> Any:
        return triton_text("sigmoid", TritonKernelOverrides.sigmoid, x)

    @staticmethod
    def log10(x: Operand) -> Any:
        if dtype_of(x) is torch.float64:
            return TritonKernelOverrides.log10(x)
        return f"({triton_text('log', TritonKernelOverrides.log, x)} * {1 / math.log(10)!r})"

    @staticmethod
    def mul_rn(x: Operand, y: Operand) -> str:
        return f"({x} * {y})"

    @classmethod
    def pow(cls, a: Operand, b: Operand) -> Any:
        dtype = common_integer(a, b)
        if dtype is None:
            return function_text("power", super().pow, a, b)
        bounds = bounds_of(b)
        assert bounds is not None, "an exponent of an integer is one"
        base = f"{a}.to({triton_type(dtype)})" if isinstance(a, CSEVariable) else cls.constant(a, dtype)
        exponent = b if isinstance(b, CSEVariable) else cls.constant(b, dtype)
        return f"device_functions.power_of_integer({base}, {exponent}, {max(bounds[1], 1).bit_length()})"

    # --- parts of numbers

    @staticmethod
    def frexp(x: Operand) -> Any:
        dtype = dtype_of(x)
        if dtype is torch.float64 or not isinstance(x, CSEVariable) or x.shape is None:
            return TritonKernelOverrides.frexp(x)
        assert dtype is not None, "a variable of a Triton kernel has a dtype"
        mantissa = function_text("frexp_mantissa", TritonKernelOverrides.frexp, x)
        exponent = f"device_functions.frexp_exponent({as_fp32(x)})"
        shape = tuple(x.shape)
        return new_variable(mantissa, dtype, shape), new_variable(exponent, torch.int32, shape)

    @staticmethod
    def ldexp(x: Operand, n: Operand) -> Any:
        if dtype_of(x) is torch.float64:
            return TritonKernelOverrides.ldexp(x, n)
        return f"device_functions.ldexp({as_fp32(x)}, {as_int32(n)})"

    @staticmethod
    def nextafter(x: Operand, y: Operand) -> Any:
        if {dtype_of(x), dtype_of(y)} & set(HALVES):
            return TritonKernelOverrides.nextafter(x, y)
        return function_text("nextafter", TritonKernelOverrides.nextafter, x, y)

    # --- random numbers

    @staticmethod
    def rand(seed: CSEVariable, offset: CSEVariable) -> str:
        return f"device_functions.uniform({seed}, {offset})"

    @staticmethod
    def randn(seed: CSEVariable, offset: CSEVariable) -> str:
        return f"device_functions.normal({seed}, {offset})"

    @staticmethod
    def randint64(seed: CSEVariable, offset: CSEVariable, low: CSEVariable, high: CSEVariable) -> str:
        first, last = value_of(low), value_of(high)
        if first is None or last is None or last - first > _LARGEST_SIZE_BY_BYTES:
            return f"device_functions.random_integers({seed}, {offset}, {low}, {high})"
        number = f"device_functions.random_integers_below({seed}, {offset}, {last - first})"
        if INT32.min <= first and last <= INT32.max:
            return f"({number} + {first}).to(tl.int64)"
        return f"device_functions.add_int64({number}, {low})"

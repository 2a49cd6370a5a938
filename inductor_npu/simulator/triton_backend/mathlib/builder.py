"""Writes LLVM IR functions on `<V x T>` from Python expressions.

A function body is Python that combines `Value`s with operators; each operation appends one line of IR. The same body
serves every number of lanes: with one lane the types are scalar. No operation carries a fast-math flag, so LLVM can
neither contract nor reassociate the compensated arithmetic that accuracy rests on; a fused multiply-add is written as
`fma`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

LLVM_TYPES = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "i128": "i128",
    "f16": "half",
    "bf16": "i16",  # its bits: LLVM's own bfloat conversions flush denormals on some hosts
    "f8E4M3FN": "i8",
    "f8E5M2": "i8",
    "f32": "float",
    "f64": "double",
}
BIT_WIDTHS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "f16": 16,
    "bf16": 16,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f32": 32,
    "f64": 64,
}
Number: TypeAlias = "int | float"
Operand: TypeAlias = "Value | int | float"


def llvm_type(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements, `element` in MLIR's spelling."""
    scalar = LLVM_TYPES[element]
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def is_float(element: str) -> bool:
    """Whether LLVM's floating-point operations apply (bf16 and fp8 are carried as bits)."""
    return element in ("f16", "f32", "f64")


def constant(element: str, number: Number) -> str:
    """A scalar constant in LLVM's spelling; a float is rounded to the element type first."""
    if not is_float(element):
        bits = BIT_WIDTHS[element]
        value = int(number) & ((1 << bits) - 1)
        return str(value - (1 << bits) if bits > 1 and value >> (bits - 1) else value)
    if element == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if element == "f32":  # LLVM writes a float constant as the double of the same value
        rounded = struct.unpack("<f", struct.pack("<f", number))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"


class Value:
    """`lanes` numbers of one element type: an SSA name or a constant."""

    __slots__ = ("builder", "element", "text")

    def __init__(self, builder: Builder, element: str, text: str) -> None:
        self.builder, self.element, self.text = builder, element, text

    @property
    def type(self) -> str:
        return llvm_type(self.element, self.builder.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def _binary(self, float_op: str, int_op: str, left: Operand, right: Operand) -> Value:
        return self.builder.binary(float_op if is_float(self.element) else int_op, self.element, left, right)

    def __add__(self, other: Operand) -> Value:
        return self._binary("fadd", "add", self, other)

    def __radd__(self, other: Number) -> Value:
        return self._binary("fadd", "add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("fsub", "sub", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self._binary("fsub", "sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("fmul", "mul", self, other)

    def __rmul__(self, other: Number) -> Value:
        return self._binary("fmul", "mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.builder.binary("fdiv", self.element, self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.builder.binary("fdiv", self.element, other, self)

    def __and__(self, other: Operand) -> Value:
        return self.builder.binary("and", self.element, self, other)

    def __or__(self, other: Operand) -> Value:
        return self.builder.binary("or", self.element, self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.builder.binary("xor", self.element, self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.builder.binary("shl", self.element, self, other)

    def __rshift__(self, other: Operand) -> Value:
        """Arithmetic shift; `logical_shift` fills with zeros."""
        return self.builder.binary("ashr", self.element, self, other)

    def logical_shift(self, other: Operand) -> Value:
        return self.builder.binary("lshr", self.element, self, other)

    def __invert__(self) -> Value:
        return self ^ -1

    def __neg__(self) -> Value:
        if is_float(self.element):
            return self.builder.instruction(self.element, f"fneg {self}")
        return 0 - self

    def compare(self, predicate: str, other: Operand) -> Value:
        """`predicate` is LLVM's, such as olt, une, uno for floats and eq, slt, ult for integers."""
        op = "fcmp" if is_float(self.element) else "icmp"
        right = self.builder.coerce(self.element, other)
        return self.builder.instruction("i1", f"{op} {predicate} {self}, {right.text}")

    def __lt__(self, other: Operand) -> Value:
        return self.compare("olt" if is_float(self.element) else "slt", other)

    def __gt__(self, other: Operand) -> Value:
        return self.compare("ogt" if is_float(self.element) else "sgt", other)

    def __le__(self, other: Operand) -> Value:
        return self.compare("ole" if is_float(self.element) else "sle", other)

    def __ge__(self, other: Operand) -> Value:
        return self.compare("oge" if is_float(self.element) else "sge", other)

    def equals(self, other: Operand) -> Value:
        return self.compare("oeq" if is_float(self.element) else "eq", other)

    def differs(self, other: Operand) -> Value:
        return self.compare("une" if is_float(self.element) else "ne", other)

    def is_nan(self) -> Value:
        return self.compare("uno", 0.0)

    def select(self, then: Operand, otherwise: Operand) -> Value:
        """`then` in the lanes where this i1 value is true."""
        element = next(v.element for v in (then, otherwise) if isinstance(v, Value))
        then, otherwise = self.builder.coerce(element, then), self.builder.coerce(element, otherwise)
        return self.builder.instruction(element, f"select {self}, {then}, {otherwise}")

    def bits(self) -> Value:
        """The same bits as an integer."""
        return self.bitcast(f"i{BIT_WIDTHS[self.element]}")

    def bitcast(self, element: str) -> Value:
        if LLVM_TYPES[element] == LLVM_TYPES[self.element]:
            return Value(self.builder, element, self.text)
        return self.builder.cast("bitcast", self, element)

    def sign_extend(self, element: str) -> Value:
        return self.builder.cast("sext", self, element)

    def zero_extend(self, element: str) -> Value:
        return self.builder.cast("zext", self, element)

    def truncate(self, element: str) -> Value:
        """Fewer bits: of an integer the low ones, of a float by rounding to nearest even."""
        return self.builder.cast("fptrunc" if is_float(self.element) else "trunc", self, element)

    def extend(self, element: str) -> Value:
        """A float in a wider format, exactly."""
        return self.builder.cast("fpext", self, element)

    def signed_to_float(self, element: str) -> Value:
        return self.builder.cast("sitofp", self, element)

    def unsigned_to_float(self, element: str) -> Value:
        return self.builder.cast("uitofp", self, element)


class Builder:
    """The body of one function under construction."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}
        self.calls_out = False  # calls C functions: then the function is too large to inline
        self.strict = False  # changes the rounding mode: strictfp, never inlined
        self.current_block = "entry"
        self._names = 0

    def fresh(self, prefix: str = "") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def instruction(self, element: str, text: str) -> Value:
        name = f"%v{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, element, name)

    def constant(self, element: str, number: Number) -> Value:
        scalar = constant(element, number)
        text = scalar if self.lanes == 1 else f"splat ({LLVM_TYPES[element]} {scalar})"
        return Value(self, element, text)

    def coerce(self, element: str, operand: Operand) -> Value:
        if not isinstance(operand, Value):
            return self.constant(element, operand)
        if operand.element != element:
            raise TypeError(f"mathlib: operand of type {operand.element} where {element} is needed")
        return operand

    def binary(self, op: str, element: str, left: Operand, right: Operand) -> Value:
        left, right = self.coerce(element, left), self.coerce(element, right)
        return self.instruction(element, f"{op} {left}, {right.text}")

    def cast(self, op: str, value: Value, element: str) -> Value:
        return self.instruction(element, f"{op} {value} to {llvm_type(element, self.lanes)}")

    def intrinsic(
        self, name: str, result: str, *arguments: Value, overloads: Sequence[str] = (), flags: str = ""
    ) -> Value:
        """Calls `llvm.<name>`, overloaded on `overloads` (default: the result); `flags` is a trailing i1 argument."""
        vector = "" if self.lanes == 1 else f"v{self.lanes}"
        suffixes = "".join(f".{vector}{e}" for e in (overloads or (result,)))
        trailing = f", {flags}" if flags else ""
        types = ", ".join(a.type for a in arguments) + (", i1" if flags else "")
        result_type = llvm_type(result, self.lanes)
        self.declarations[f"declare {result_type} @llvm.{name}{suffixes}({types})"] = None
        operands = ", ".join(str(a) for a in arguments)
        return self.instruction(result, f"call {result_type} @llvm.{name}{suffixes}({operands}{trailing})")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c with one rounding."""
        element = next(x.element for x in (a, b, c) if isinstance(x, Value))
        return self.intrinsic("fma", element, *(self.coerce(element, x) for x in (a, b, c)))

    def unary(self, name: str, x: Value) -> Value:
        return self.intrinsic(name, x.element, x)

    def abs(self, x: Value) -> Value:
        return self.unary("fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self.unary("sqrt", x)

    def floor(self, x: Value) -> Value:
        return self.unary("floor", x)

    def trunc(self, x: Value) -> Value:
        return self.unary("trunc", x)

    def round_even(self, x: Value) -> Value:
        return self.unary("roundeven", x)

    def copysign(self, magnitude: Operand, sign: Value) -> Value:
        return self.intrinsic("copysign", sign.element, self.coerce(sign.element, magnitude), sign)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Horner's scheme; coefficients with the constant term first."""
        result = self.constant(x.element, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def polynomial_parallel(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Estrin's scheme: more in parallel than Horner's, slightly more rounding; for high-order terms."""
        terms = [self.constant(x.element, c) for c in coefficients]
        power = x
        while len(terms) > 1:
            pairs = [self.fma(high, power, low) for low, high in zip(terms[::2], terms[1::2])]
            terms = pairs + terms[len(terms) & ~1 :]
            power = power * power if len(terms) > 1 else power
        return terms[0]

    def to_int(self, x: Value, element: str, signed: bool = True) -> Value:
        """Toward zero; saturating, NaN gives 0: defined for every input, unlike fptosi."""
        name = "fptosi.sat" if signed else "fptoui.sat"
        return self.intrinsic(name, element, x, overloads=(element, x.element))

    def where_any(self, mask: Value, fast: Sequence[Value], slow: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
        """`fast`, but `slow()` in the lanes of `mask`; the slow code is skipped when no lane needs it."""
        some = mask.text
        if self.lanes > 1:
            bits, some = f"%v{self.fresh()}", f"%v{self.fresh()}"
            self.lines.append(f"  {bits} = bitcast {mask} to i{self.lanes}")
            self.lines.append(f"  {some} = icmp ne i{self.lanes} {bits}, 0")
        before, rare, join = self.current_block, self.fresh("rare"), self.fresh("join")
        weights = '!prof !{!"branch_weights", i32 1, i32 2000}'
        self.lines += [f"  br i1 {some}, label %{rare}, label %{join}, {weights}", f"{rare}:"]
        self.current_block = rare
        merged = [mask.select(s, f) for s, f in zip(slow(), fast)]
        self.lines += [f"  br label %{join}", f"{join}:"]
        after, self.current_block = self.current_block, join
        return tuple(
            self.instruction(f.element, f"phi {f.type} [ {f.text}, %{before} ], [ {m.text}, %{after} ]")
            for f, m in zip(fast, merged)
        )

    def per_lane(self, c_function: str, result: str, *arguments: Value) -> Value:
        """Calls a C function once a lane. The function must be pure but for errno."""
        self.calls_out = True
        scalar_types = ", ".join(LLVM_TYPES[a.element] for a in arguments)
        result_scalar = LLVM_TYPES[result]
        prototype = f"declare {result_scalar} @{c_function}({scalar_types})"
        self.declarations[f"{prototype} nounwind willreturn memory(none)"] = None
        if self.lanes == 1:
            operands = ", ".join(str(a) for a in arguments)
            return self.instruction(result, f"call {result_scalar} @{c_function}({operands})")
        merged = "poison"
        for lane in range(self.lanes):
            operands = ", ".join(
                f"{LLVM_TYPES[a.element]} {self.instruction(a.element, f'extractelement {a}, i32 {lane}').text}"
                for a in arguments
            )
            one = self.instruction(result, f"call {result_scalar} @{c_function}({operands})")
            vector = llvm_type(result, self.lanes)
            merged = self.instruction(
                result, f"insertelement {vector} {merged}, {result_scalar} {one.text}, i32 {lane}"
            ).text
        return Value(self, result, merged)

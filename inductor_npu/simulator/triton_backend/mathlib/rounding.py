"""libdevice's arithmetic and conversions with a rounding mode: _rn nearest even, _rz toward zero, _rd down, _ru up.

Directed modes are exact: the function switches the host's rounding mode around one constrained operation.
"""

from __future__ import annotations

from .builder import Builder, Value, llvm_type
from .library import Body, define

MODES = {"rz": 0, "ru": 2, "rd": 3}  # as llvm.set.rounding counts
TO_INTEGER = {"rn": "roundeven", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def constrained(b: Builder, mode: str, operation: str, result: str, *arguments: Value) -> Value:
    """An LLVM constrained operation under a directed rounding mode."""
    b.strict = True
    b.declarations["declare void @llvm.set.rounding(i32)"] = None
    overloads = (result,) if arguments[0].element == result else (result, arguments[0].element)
    vector = "" if b.lanes == 1 else f"v{b.lanes}"
    name = f"@llvm.experimental.constrained.{operation}" + "".join(f".{vector}{e}" for e in overloads)
    types = ", ".join(a.type for a in arguments)
    type_ = llvm_type(result, b.lanes)
    b.declarations[f"declare {type_} {name}({types}, metadata, metadata)"] = None
    operands = ", ".join(str(a) for a in arguments)
    b.lines.append(f"  call void @llvm.set.rounding(i32 {MODES[mode]}) strictfp")
    dynamic = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'
    value = b.instruction(result, f"call {type_} {name}({operands}, {dynamic}) strictfp")
    b.lines.append("  call void @llvm.set.rounding(i32 1) strictfp")
    return value


def _arithmetic(operation: str, mode: str) -> Body:
    def body(b: Builder, *arguments: Value) -> Value:
        if mode != "rn":
            return constrained(b, mode, operation, arguments[0].element, *arguments)
        if operation in ("fma", "sqrt"):
            return b.intrinsic(operation, arguments[0].element, *arguments)
        return b.binary(operation, arguments[0].element, *arguments)

    return body


def _reciprocal(mode: str) -> Body:
    return lambda b, x: _arithmetic("fdiv", mode)(b, b.constant(x.element, 1.0), x)


def _to_float(target: str, mode: str, signed: bool) -> Body:
    """From an integer, or from f64 to f32."""

    def body(b: Builder, x: Value) -> Value:
        if x.element == "f64":
            return x.truncate(target) if mode == "rn" else constrained(b, mode, "fptrunc", target, x)
        exact = x.element == "i32" and target == "f64"
        if mode == "rn" or exact:
            return x.signed_to_float(target) if signed else x.unsigned_to_float(target)
        return constrained(b, mode, "sitofp" if signed else "uitofp", target, x)

    return body


def _to_integer(target: str, mode: str, signed: bool) -> Body:
    return lambda b, x: b.to_int(b.unary(TO_INTEGER[mode], x), target, signed)


def _define_all() -> None:
    one, two, three = (tuple(" ".join([e] * n) for e in ("f32", "f64")) for n in (1, 2, 3))
    integers = (("int", "i32", True), ("uint", "i32", False), ("ll", "i64", True), ("ull", "i64", False))
    for mode in TO_INTEGER:
        for name, operation, signatures in (
            ("add", "fadd", two),
            ("sub", "fsub", two),
            ("mul", "fmul", two),
            ("div", "fdiv", two),
            ("sqrt", "sqrt", one),
            ("fma", "fma", three),
        ):
            define(f"{name}_{mode}", *signatures)(_arithmetic(operation, mode))
        define(f"rcp_{mode}", *one)(_reciprocal(mode))
        define(f"double2float_{mode}", "f64")(_to_float("f32", mode, signed=True))
        for name, element, signed in integers:
            for float_name, float_element in (("float", "f32"), ("double", "f64")):
                define(f"{float_name}2{name}_{mode}", float_element)(_to_integer(element, mode, signed))
                define(f"{name}2{float_name}_{mode}", element)(_to_float(float_element, mode, signed))


_define_all()


@define("rsqrt_rn", "f32", "f64")
def rsqrt_rn(b: Builder, x: Value) -> Value:
    """f32: correctly rounded but for ties of the f64 result, of which there are none."""
    if x.element == "f64":
        return 1.0 / b.sqrt(x)
    return (1.0 / b.sqrt(x.extend("f64"))).truncate("f32")

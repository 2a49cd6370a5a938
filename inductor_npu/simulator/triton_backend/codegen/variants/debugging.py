"""device_print and device_assert."""

from __future__ import annotations

from ...ttir.ir import Op, Value
from ..analysis.operations import is_tensor
from ..emit.context import CodegenContext
from ..emit.counters import report_counts
from ..errors import UnsupportedOperation
from ..evaluation.evaluator import scalar_of
from ..forms.lane import Uniform
from ..forms.types import element_of, shape_of
from ..forms.value import Val
from ..nests.materialise import materialised

# How the runtime names the types of printed values; upper case for unsigned integers.
_PRINT_KINDS = {
    "i1": "b",
    "i8": "c",
    "i16": "h",
    "i32": "i",
    "i64": "l",
    "f16": "e",
    "bf16": "y",
    "f32": "f",
    "f64": "d",
    "ptr": "p",
}


def emit_print(context: CodegenContext, op: Op) -> None:
    """Hands each operand to the runtime, from scratch."""
    b = context.b
    prefix = b.table("i8", [*str(op.attrs.get("prefix", "")).encode(), 0])
    program = context.memory.scratch_pointer(context.scratch.reserve(12))
    for axis, val in enumerate(context.program_ids):
        place = b.pure("ptr", 0, f"getelementptr i32, {program}, i64 {axis}", program)
        b.line(f"store {val}, {place}")
    b.declare("declare void @npu_device_print(ptr, ptr, ptr, i32, i32, i32, i32, ptr, i32)")
    signs = op.attrs.get("isSigned") or [0] * len(op.operands)
    hexadecimal = int(bool(op.attrs.get("hex")))
    if not op.operands:
        b.line(
            f"call void @npu_device_print({program}, {prefix}, ptr null, i32 0, i32 0, i32 0, i32 0, ptr null, i32 0)"
        )
    for number, operand in enumerate(op.operands):
        values, shape = _printed(context, operand)
        element = element_of(operand.type)
        kind = _PRINT_KINDS.get(element)
        if kind is None:
            raise UnsupportedOperation(op, f"printing {element} is not supported; convert it first")
        if element in ("i8", "i16", "i32", "i64") and not signs[number]:
            kind = kind.upper()
        extents = b.table("i64", shape or (1,))
        b.line(
            f"call void @npu_device_print({program}, {prefix}, {values}, i32 {ord(kind)}, i32 {hexadecimal}, "
            f"i32 {number}, i32 {len(op.operands)}, {extents}, i32 {len(shape)})"
        )


def _printed(context: CodegenContext, operand: Value) -> tuple[Val, tuple[int, ...]]:
    """Where the values to print lie, and their shape."""
    if is_tensor(operand):
        return context.memory.scratch_pointer(materialised(context, operand).offset), shape_of(operand.type)
    element = element_of(operand.type)
    place = context.memory.scratch_pointer(context.scratch.reserve(8))
    context.memory.store(Uniform(place), context.lane(operand), None, element, 0)
    return place, ()


def emit_assert(context: CodegenContext, op: Op) -> None:
    """Ends this call of the kernel with the assert's number where the condition does not hold."""
    b = context.b
    condition = scalar_of(context, op.operands[0])
    context.messages.append(
        f"{op.attrs.get('message', '')} ({op.line})" if op.line else str(op.attrs.get("message", ""))
    )
    failed, passed = b.fresh("failed"), b.fresh("passed")
    b.line(f"br i1 {condition.text}, label %{passed}, label %{failed}")
    known = b.enter(failed)
    b.line("store i64 %number, ptr %context")
    if b.counting:
        b.sinks[-1] += report_counts(failed)
    b.line(f"ret i32 {len(context.messages)}")
    b.leave(passed, known)

"""From a TTIR kernel to one LLVM function with the runtime's kernel ABI (see docs/architecture.md, section 4)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ttir.ir import Function, Module, ScalarType, TensorType
from ..analysis.operations import ATOMICS
from ..emit.checks import Access, Checks
from ..emit.context import CodegenContext
from ..emit.counters import counter_definitions, report_counts
from ..errors import UnsupportedOperation
from ..evaluation.evaluator import scalar_of
from ..forms.lane import Uniform
from ..forms.scratch import held
from ..forms.types import FLOATS, LLVM_TYPES, element_of, llvm_type
from ..options import CodegenOptions
from ..rewriting.rewrite import rewrite
from .blocks import write_block

DEEPEST_CHAIN = 10_000  # Python calls: values are evaluated recursively, three calls an operation


@dataclass(frozen=True)
class GeneratedKernel:
    """The text of an LLVM module with the function `entry`. Each running thread needs `scratch_bytes` of its own;
    `work_per_program` estimates the elements that a program touches (0: all programs run on one thread); `messages[i]`
    belongs to device_assert number i+1. `accesses` are those of the checked variant, by the number that its checks
    pass.
    """

    llvm_ir: str
    entry: str
    scratch_bytes: int
    work_per_program: int
    messages: list[str] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)


def generate_kernel(module: Module, options: CodegenOptions) -> GeneratedKernel:
    """LLVM IR for the module's kernel. Raises UnsupportedOperation, which names operation and source line."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_CHAIN))
    try:
        return _generate(module.kernel, options)
    finally:
        sys.setrecursionlimit(limit)


def _generate(function: Function, options: CodegenOptions) -> GeneratedKernel:
    _refuse_unknown_elements(function)
    rewrite(function, options.vectors, observed=options.record or options.checked)
    context = CodegenContext.of(function, options)
    _load_arguments(context, function)
    if options.checked:
        context.memory.checks = _checks(context, function)
    entry = list(context.b.sinks[0])
    context.b.sinks[0].clear()
    write_block(context, function.body)
    name = f"npu_{function.name}"
    return GeneratedKernel(
        _module(context, name, entry),
        name,
        context.scratch.size,
        0 if context.plain_atomics else max(1, context.work),
        context.messages,
        context.memory.checks.accesses if context.memory.checks is not None else [],
    )


def _refuse_unknown_elements(function: Function) -> None:
    """Raises UnsupportedOperation for the first operation whose result has numbers in a format that is not known."""
    for op in function.body.walk():
        for result in op.results:
            type_ = result.type.element if isinstance(result.type, TensorType) else result.type
            if isinstance(type_, ScalarType) and type_.name not in LLVM_TYPES:
                known = ", ".join(sorted(FLOATS))
                raise UnsupportedOperation(
                    op, f"numbers in the format {type_.name} are not supported; convert them to one of {known} first"
                )


def _load_arguments(context: CodegenContext, function: Function) -> None:
    """Loads the arguments from their 8-byte slots."""
    attrs = function.argument_attrs or [{}] * len(function.body.arguments)
    for slot, (argument, facts) in enumerate(zip(function.body.arguments, attrs)):
        element = element_of(argument.type)
        address = f"%args.{slot}"
        context.b.line(f"{address} = getelementptr i64, ptr %args, i64 {slot}")
        memory_element = held(element)
        value = context.b.read(memory_element, 0, f"load {llvm_type(memory_element, 0)}, ptr {address}")
        if element == "i1":
            value = context.b.cast("trunc", value, "i1")
        divisor = facts.get("tt.divisibility")
        if isinstance(divisor, int) and element in ("i32", "i64"):
            value.divisor = divisor
        context.places[argument] = Uniform(value)


def _checks(context: CodegenContext, function: Function) -> Checks:
    arguments = {argument: scalar_of(context, argument) for argument in function.body.arguments}
    ordered = any(op.name in ATOMICS and context.use_counts[op.result] for op in function.body.walk())
    return Checks(context.b, context.lanes, context.facts.aliases, arguments, ordered)


def _module(context: CodegenContext, name: str, entry: Sequence[str]) -> str:
    library = context.math.library
    declared = frozenset(context.b.declarations)
    globals_ = "\n".join(f"{symbol} = {text}" for text, symbol in context.b.globals.items())
    return "\n".join(
        [
            globals_,
            *context.b.declarations,
            library.text(declared),
            (
                f"define i32 @{name}(ptr noalias readonly %args, i64 %begin, i64 %end, ptr noalias readonly %grid, "
                "ptr noalias %scratch, ptr noalias %context) nounwind {"
            ),
            "entry:",
            *(counter_definitions() if context.options.record else ()),
            *(context.memory.checks.definitions() if context.memory.checks is not None else ()),
            *entry,
            _PROLOGUE,
            context.b.text(),
            _EPILOGUE,
            *(report_counts("total") if context.options.record else ()),
            "  ret i32 0",
            "}",
        ]
    )


_PROLOGUE = """\
  %grid.x = load i32, ptr %grid
  %grid.y.at = getelementptr i32, ptr %grid, i64 1
  %grid.y = load i32, ptr %grid.y.at
  %grid.z.at = getelementptr i32, ptr %grid, i64 2
  %grid.z = load i32, ptr %grid.z.at
  %empty = icmp sge i64 %begin, %end
  br i1 %empty, label %finished, label %first
first:
  %grid.x.wide = zext i32 %grid.x to i64
  %grid.y.wide = zext i32 %grid.y to i64
  %begin.x = urem i64 %begin, %grid.x.wide
  %begin.yz = udiv i64 %begin, %grid.x.wide
  %begin.y = urem i64 %begin.yz, %grid.y.wide
  %begin.z = udiv i64 %begin.yz, %grid.y.wide
  %first.x = trunc i64 %begin.x to i32
  %first.y = trunc i64 %begin.y to i32
  %first.z = trunc i64 %begin.z to i32
  br label %program
program:
  %number = phi i64 [ %begin, %first ], [ %number.next, %next ]
  %program.x = phi i32 [ %first.x, %first ], [ %program.x.next, %next ]
  %program.y = phi i32 [ %first.y, %first ], [ %program.y.next, %next ]
  %program.z = phi i32 [ %first.z, %first ], [ %program.z.next, %next ]
  br label %body
body:"""

_EPILOGUE = """\
  br label %next
next:
  %number.next = add nsw i64 %number, 1
  %x.up = add nuw i32 %program.x, 1
  %x.wraps = icmp eq i32 %x.up, %grid.x
  %program.x.next = select i1 %x.wraps, i32 0, i32 %x.up
  %y.carry = zext i1 %x.wraps to i32
  %y.up = add nuw i32 %program.y, %y.carry
  %y.wraps = icmp eq i32 %y.up, %grid.y
  %program.y.next = select i1 %y.wraps, i32 0, i32 %y.up
  %z.carry = zext i1 %y.wraps to i32
  %program.z.next = add nuw i32 %program.z, %z.carry
  %more = icmp slt i64 %number.next, %end
  br i1 %more, label %program, label %finished
finished:"""

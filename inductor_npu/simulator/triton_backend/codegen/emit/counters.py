"""The record variant of a kernel counts its work in stack variables, and adds them to its context at its end.

The variant is off by default; ordinary kernels have no trace of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..forms.value import Val

NAMES = ("bytes_read", "bytes_written", "vector_operations")  # KernelContext's fields, after failed_program
_MOVES = frozenset({"insertelement", "extractelement", "shufflevector", "getelementptr", "bitcast"})


def is_vector_operation(text: str, lanes: int, operands: Sequence[Val]) -> bool:
    """Whether a pure instruction computes with vectors: a function of the math library counts as one operation, moves
    between lanes and address arithmetic count as none.
    """
    return (lanes > 1 or any(o.lanes > 1 for o in operands)) and text.split(" ", 1)[0] not in _MOVES


def increment(counter: str, amount: str, number: int) -> list[str]:
    """Adds `amount` to a counter; `number` makes the names unique."""
    return [
        f"  %before.{number} = load i64, ptr %count.{counter}",
        f"  %after.{number} = add i64 %before.{number}, {amount}",
        f"  store i64 %after.{number}, ptr %count.{counter}",
    ]


def counter_definitions() -> list[str]:
    """The counters, zero at the kernel's begin."""
    lines = []
    for name in NAMES:
        lines += [f"  %count.{name} = alloca i64", f"  store i64 0, ptr %count.{name}"]
    return lines


def report_counts(prefix: str) -> list[str]:
    """Adds the counters to the kernel's context; `prefix` makes the names unique."""
    lines = []
    for field, name in enumerate(NAMES, start=1):
        val = f"%{prefix}.{name}"
        lines += [
            f"  {val}.counted = load i64, ptr %count.{name}",
            f"  {val}.at = getelementptr i64, ptr %context, i64 {field}",
            f"  {val}.before = load i64, ptr {val}.at",
            f"  {val}.after = add i64 {val}.before, {val}.counted",
            f"  store i64 {val}.after, ptr {val}.at",
        ]
    return lines

"""Writes LLVM IR as text, with value numbering and hoisting built in.

Code is written at *levels*: level 0 is the current place in the kernel, and each open loop of a loop nest adds one
level. A pure instruction goes to the innermost level among its operands, so that an instruction which depends on outer
axes only lands in the outer loop. An instruction that was written before at a dominating place is not written again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..forms.literals import literal
from ..forms.types import BITS, LLVM_TYPES, llvm_type, mangled, wrap
from ..forms.value import Val
from .counters import increment, is_vector_operation


@dataclass(eq=False, slots=True)
class Loop:
    """An open loop of a nest over an induction variable; its body runs at least once. `phis` are what it carries, each
    with its first value; their instructions go into `phi_segment`.
    """

    header: str
    outer_label: str
    iv: Val
    step: int
    stop: int
    phi_segment: list[str]
    phis: list[tuple[Val, Val]]
    latch: str = ""  # the block that the body ends in, once it is closed


class Builder:
    """Writes the body of one function; see the module's docstring."""

    def __init__(self, counting: bool = False) -> None:
        self.counting = counting  # whether the code counts what it does
        self.segments: list[list[str]] = [[]]
        self.sinks: list[list[str]] = [self.segments[0]]
        self.known: list[dict[str, Val]] = [{}]
        self.labels: list[str] = ["body"]
        self.declarations: dict[str, None] = {}
        self.globals: dict[str, str] = {}
        self._numbers = itertools.count()

    # -- names and raw lines -----------------------------------------------------------------------------------------
    @property
    def level(self) -> int:
        return len(self.sinks) - 1

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def line(self, text: str) -> None:
        """An instruction without a result, at the innermost level."""
        self.sinks[-1].append(f"  {text}")

    def new_segment(self) -> list[str]:
        """A new list of lines, after all others, that level 0 continues in."""
        segment: list[str] = []
        self.segments.append(segment)
        self.sinks[0] = segment
        return segment

    def enter(self, name: str) -> dict[str, Val]:
        """Begins a block at level 0 that all code so far dominates. Returns what is known here, for `leave`."""
        known = dict(self.known[0])
        self.sinks[0].append(f"{name}:")
        self.labels[0] = name
        return known

    def mark(self, name: str) -> None:
        """Begins a block at the innermost level, within a chunk's code; nothing is hoisted across it."""
        self.sinks[-1].append(f"{name}:")
        self.labels[-1] = name
        self.known[-1].clear()

    def leave(self, name: str, known: dict[str, Val]) -> None:
        """Begins a block at level 0 where of all values only `known` ones may be reused."""
        self.enter(name)
        self.known[0] = known

    @property
    def current_label(self) -> str:
        return self.labels[-1]

    def text(self) -> str:
        return "\n".join("\n".join(segment) for segment in self.segments if segment)

    # -- values ------------------------------------------------------------------------------------------------------
    def constant(self, element: str, number: int | float | bool, lanes: int = 0) -> Val:
        if isinstance(number, int) and BITS[element] > 1:
            number = wrap(number, element)
        text = literal(element, number)
        if lanes:
            text = f"splat ({LLVM_TYPES[element]} {text})" if element != "ptr" else f"splat (ptr {text})"
        val = Val(text, element, lanes)
        val.constant = number
        val.bits_are_ordered = isinstance(number, float) and (number == -math.inf or math.copysign(1.0, number) > 0)
        if not lanes and isinstance(number, int) and element != "ptr":
            val.divisor, val.low, val.high = abs(number), number, number
        return val

    def poison(self, element: str, lanes: int) -> Val:
        return Val("poison", element, lanes)

    def pure(self, element: str, lanes: int, text: str, *operands: Val) -> Val:
        """A pure instruction, hoisted to the innermost level of its operands."""
        level = 0
        for operand in operands:
            if operand.level > level:
                level = operand.level
        known = self.known[level]
        val = known.get(text)
        if val is None:
            val = Val(f"%v{next(self._numbers)}", element, lanes, level)
            self.sinks[level].append(f"  {val.text} = {text}")
            known[text] = val
            if self.counting and is_vector_operation(text, lanes, operands):
                self.count("vector_operations", "1", level)
        return val

    def count(self, counter: str, amount: str, level: int) -> None:
        """Adds an i64 to one of `counters.NAMES`, whenever the code at `level` runs."""
        self.sinks[level] += increment(counter, amount, next(self._numbers))

    def effect(self, element: str, lanes: int, text: str) -> Val:
        """An instruction with effects or that reads memory, at the innermost level, never merged with another."""
        val = Val(f"%v{next(self._numbers)}", element, lanes, self.level)
        self.sinks[-1].append(f"  {val.text} = {text}")
        return val

    def read(self, element: str, lanes: int, text: str, *operands: Val) -> Val:
        """A read of memory, at the innermost level of its operands; never merged with another."""
        level = max((operand.level for operand in operands), default=0)
        val = Val(f"%v{next(self._numbers)}", element, lanes, level)
        self.sinks[level].append(f"  {val.text} = {text}")
        return val

    def binary(self, opcode: str, a: Val, b: Val) -> Val:
        return self.pure(a.element, a.lanes, f"{opcode} {a}, {b.text}", a, b)

    def compare(self, opcode: str, a: Val, b: Val) -> Val:
        """`opcode` such as "icmp slt" or "fcmp ogt"."""
        return self.pure("i1", a.lanes, f"{opcode} {a}, {b.text}", a, b)

    def cast(self, opcode: str, value: Val, element: str) -> Val:
        return self.pure(element, value.lanes, f"{opcode} {value} to {llvm_type(element, value.lanes)}", value)

    def retype(self, value: Val, element: str) -> Val:
        """The same bits under another element name of the same LLVM type or size."""
        if LLVM_TYPES[value.element] == LLVM_TYPES[element]:
            copy = Val(value.text, element, value.lanes, value.level)
            if not value.lanes:
                copy.divisor, copy.low, copy.high = value.divisor, value.low, value.high
            return copy
        return self.cast("bitcast", value, element)

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return self.pure(a.element, a.lanes, f"select {condition}, {a}, {b}", condition, a, b)

    def declare(self, text: str) -> None:
        self.declarations[text] = None

    def intrinsic(
        self, name: str, result: tuple[str, int], operands: Sequence[Val], overloads: Sequence[tuple[str, int]] = ()
    ) -> Val:
        """A pure intrinsic `llvm.<name>`, overloaded on `overloads` (default: the result type)."""
        suffix = "".join("." + mangled(*o) for o in (overloads or (result,)))
        result_type = llvm_type(*result)
        self.declare(f"declare {result_type} @llvm.{name}{suffix}({', '.join(o.type for o in operands)})")
        arguments = ", ".join(str(o) for o in operands)
        return self.pure(*result, f"call {result_type} @llvm.{name}{suffix}({arguments})", *operands)

    def splat(self, value: Val, lanes: int) -> Val:
        if value.lanes:
            return value
        if value.constant is not None:
            return self.constant(value.element, value.constant, lanes)
        vector = llvm_type(value.element, lanes)
        first = self.pure(value.element, lanes, f"insertelement {vector} poison, {value}, i32 0", value)
        return self.pure(
            value.element,
            lanes,
            f"shufflevector {vector} {first.text}, {vector} poison, <{lanes} x i32> zeroinitializer",
            first,
        )

    def shuffle(self, value: Val, indices: Sequence[int], other: Val | None = None) -> Val:
        mask = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in indices)
        second = other.text if other is not None else "poison"
        operands = (value,) if other is None else (value, other)
        val = self.pure(
            value.element,
            len(indices),
            f"shufflevector {value}, {value.type} {second}, <{len(indices)} x i32> <{mask}>",
            *operands,
        )
        val.bits_are_ordered = all(operand.bits_are_ordered for operand in operands)
        return val

    def extract(self, value: Val, lane: int) -> Val:
        val = self.pure(value.element, 0, f"extractelement {value}, i32 {lane}", value)
        val.bits_are_ordered = value.bits_are_ordered
        return val

    def lane_numbers(self, element: str, numbers: Sequence[int]) -> Val:
        """A constant vector of integers, wrapped to the element type."""
        scalar = LLVM_TYPES[element]
        text = ", ".join(f"{scalar} {literal(element, number)}" for number in numbers)
        return Val(f"<{text}>", element, len(numbers))

    def iota(self, element: str, lanes: int, step: int = 1, start: int = 0) -> Val:
        return self.lane_numbers(element, range(start, start + lanes * step, step) if step else [start] * lanes)

    # -- loops -------------------------------------------------------------------------------------------------------
    def open_loop(self, start: int, stop: int, step: int, first: Val | None = None) -> Loop:
        """A loop of a nest over constants; `stop - start` is a positive multiple of `step`. Closed by `close_loop`.

        With `first`, which is `start` and a multiple of `step`, or by `close_guarded`, it may be over fewer.
        """
        header, outer_label = self.fresh("loop"), self.labels[-1]
        phi_segment, body = [f"  br label %{header}", f"{header}:"], list[str]()
        self.segments += [phi_segment, body]
        self.sinks.append(body)
        self.known.append({})
        self.labels.append(header)
        iv = Val(self.fresh("%i"), "i64", 0, self.level).known(start, stop - step, math.gcd(start, step))
        return Loop(header, outer_label, iv, step, stop, phi_segment, [(iv, first or self.constant("i64", start))])

    def phi(self, loop: Loop, initial: Val) -> Val:
        """A value carried by the open loop, first `initial`; `close_loop` is told what follows."""
        val = Val(self.fresh("%c"), initial.element, initial.lanes, self.level)
        loop.phis.append((val, initial))
        return val

    def close_guarded(self, loop: Loop, stop: Val, carried: Sequence[Val] = ()) -> list[Val]:
        """Closes a loop that ends at `stop`, known outside of it, and whose body does not run where it begins there.

        Returns what is carried out of it, or what was to be carried into it.
        """
        first = loop.phis[0][1]
        entered = self.compare("icmp slt", first, stop)
        initial = [value for _, value in loop.phis[1:]]
        self.close_loop(loop, carried, stop.text)
        done = self.labels[-1]
        loop.phi_segment[0] = f"  br i1 {entered.text}, label %{loop.header}, label %{done}"
        merged = []
        for before, after in zip(initial, carried, strict=True):
            val = Val(self.fresh("%m"), after.element, after.lanes, self.level)
            self.line(
                f"{val.text} = phi {val.type} [ {before.text}, %{loop.outer_label} ], [ {after.text}, %{loop.latch} ]"
            )
            merged.append(val)
        return merged

    def close_loop(self, loop: Loop, carried: Sequence[Val] = (), stop: str = "") -> None:
        iv = loop.iv
        next_ = Val(f"{iv.text}n", "i64", 0, self.level)
        latch = loop.latch = self.labels[-1]
        done = self.fresh("done")
        for (val, initial), following in zip(loop.phis, (next_, *carried)):
            loop.phi_segment.append(
                f"  {val.text} = phi {val.type} [ {initial.text}, %{loop.outer_label} ], [ {following.text}, %{latch} ]"
            )
        self.line(f"{next_.text} = add nuw nsw {iv}, {loop.step}")
        self.line(f"{iv.text}c = icmp ult {next_}, {stop or loop.stop}")
        self.line(f"br i1 {iv.text}c, label %{loop.header}, label %{done}")
        self.sinks.pop()
        self.known.pop()
        self.labels.pop()
        self.segments.append([f"{done}:"])
        self.sinks[-1] = self.segments[-1]
        self.labels[-1] = done
        for following in carried:  # they leave the loop: usable in the code after it
            following.level = min(following.level, self.level)

    # -- constants in memory -----------------------------------------------------------------------------------------
    def table(self, element: str, values: Sequence[int | float]) -> Val:
        """The address of a constant array."""
        scalar = LLVM_TYPES[element if element != "i1" else "i8"]
        kind = element if element != "i1" else "i8"
        body = ", ".join(f"{scalar} {literal(kind, v)}" for v in values)
        text = f"private unnamed_addr constant [{len(values)} x {scalar}] [{body}], align 64"
        name = self.globals.setdefault(text, f"@table{len(self.globals)}")
        return Val(name, "ptr")

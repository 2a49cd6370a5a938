"""The statements of a kernel, each with the names that it defines and reads. What no effect depends on is not printed.

Whether a value is needed is known only when the whole kernel is written: a store may be dropped with its buffer, and a
mask turns out to be implied. So every statement is written, and records what it defines and reads; `keep_needed` then
follows these records backwards, with the names that are live. An accumulator that only feeds itself is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch._inductor.utils import DeferredLineBase, LineContext

_ASSIGNMENT = re.compile(r"(\w+(?:, \w+)*)(?:: tl\.constexpr)? = (.*)", re.DOTALL)
_LOOP = re.compile(r"for (\w+) in (.*):")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CALL = re.compile(r"([\w.]+)\(")

# The modules that generated code calls. Only their functions with one of these words have side effects.
_MODULES = {"tl", "libdevice", "tl_math", "triton_helpers", "device_functions"}
_EFFECTS = ("store", "atomic", "assert", "print", "barrier", "asm", "lookback")
_FUNCTIONS = {"range", "float", "int", "bool", "min", "max"}
_METHODS = {"to"}


def _is_pure(function: str) -> bool:
    """Whether a call of `function`, a dotted name, has no side effect; reading memory is none."""
    owner, _, name = function.rpartition(".")
    if "." not in function:
        return name in _FUNCTIONS
    if owner.partition(".")[0] in _MODULES:
        return not any(word in name for word in _EFFECTS)
    return name in _METHODS


@dataclass(eq=False)
class Statement:
    """The names that a statement `defines` and `reads`. It `has_effect` if it does more than define names."""

    defines: frozenset[str]
    reads: frozenset[str]
    has_effect: bool
    is_needed: bool = True

    @classmethod
    def of(cls, text: str) -> Statement:
        """The record of the statement `text`: an assignment, the header of a loop, a call or a comment."""
        if text.startswith("#"):
            return cls(frozenset(), frozenset(), has_effect=True)
        if parts := _ASSIGNMENT.fullmatch(text) or _LOOP.fullmatch(text):
            targets, value = parts.groups()
            has_effect = not all(map(_is_pure, _CALL.findall(value)))
            return cls(frozenset(targets.split(", ")), frozenset(_NAME.findall(value)), has_effect)
        return cls(frozenset(), frozenset(_NAME.findall(text)), has_effect=True)


class PrintedLine(DeferredLineBase):
    """The line of a statement, printed if the statement is needed and `line`, if that is a deferred one, still is."""

    def __init__(self, line: str | DeferredLineBase, statement: Statement) -> None:
        super().__init__(line if isinstance(line, str) else line.line)
        self.inner, self.statement = line, statement

    def __call__(self) -> str | None:
        if not self.statement.is_needed:
            return None
        return self.inner if isinstance(self.inner, str) else self.inner()

    def _new_line(self, line: str) -> PrintedLine:
        return PrintedLine(line if isinstance(self.inner, str) else self.inner._new_line(line), self.statement)

    @property
    def depth(self) -> int:
        """Columns of indentation."""
        return len(self.line) - len(self.line.lstrip())

    @property
    def is_dropped(self) -> bool:
        """Whether the line is a store to a buffer that Inductor has removed."""
        return isinstance(self.inner, DeferredLine) and self.inner() is None


class Statements(IndentedBuffer):
    """A buffer whose lines are statements."""

    def writeline(self, line: Any) -> None:
        super().writeline(line)
        self._record(len(self._lines) - 1)

    def splice(self, other_code: IndentedBuffer | str, strip: bool = False) -> None:
        first = len(self._lines)
        super().splice(other_code, strip)
        self._record(first)

    def _record(self, first: int) -> None:
        """Makes statements of the lines from number `first` on that are none yet."""
        for number, line in enumerate(self._lines[first:], first):
            if line and not isinstance(line, (PrintedLine, LineContext)):
                text = line if isinstance(line, str) else line.line
                self._lines[number] = PrintedLine(line, Statement.of(text.strip()))

    def keep_needed(self) -> None:
        """Decides which statements are printed: those with an effect, those that define what a printed one reads, and
        the loops around them.
        """
        lines = [line for line in self._lines if isinstance(line, PrintedLine) and not line.is_dropped]
        for line in lines:
            line.statement.is_needed = False
        _keep_needed(lines, frozenset())


def _keep_needed(lines: Sequence[PrintedLine], after: frozenset[str]) -> frozenset[str]:
    """Marks the statements that are needed if the names `after` are live behind them; returns the names that are live
    before them.
    """
    blocks: list[tuple[Statement, list[PrintedLine]]] = []  # a statement, and the lines in the loop that it begins
    for line in lines:
        if blocks and line.depth > lines[0].depth:
            blocks[-1][1].append(line)
        else:
            blocks.append((line.statement, []))
    live = after
    for statement, inside in reversed(blocks):
        if inside:
            # What is live at the start of an iteration is live at the end of the one before.
            around = live
            while not (before := _keep_needed(inside, around)) <= around:
                around |= before
            if any(line.statement.is_needed for line in inside):
                statement.is_needed = True
                live |= (before - statement.defines) | statement.reads
        elif statement.has_effect or statement.defines & live:
            statement.is_needed = True
            live = (live - statement.defines) | statement.reads
    return live

"""The statements of a kernel, each with the names that it defines and reads. What no effect depends on is not printed.

Whether a value is needed is known only when the whole kernel is written: a store may be dropped with its buffer, and a
mask turns out to be implied. So every statement is written, and records what it defines and reads; `keep_needed` then
follows these records from the stores, atomic operations and assertions backwards. It takes no account of order: an
accumulator that only feeds itself is reached from no effect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch._inductor.utils import DeferredLineBase, LineContext

_ASSIGNMENT = re.compile(r"(\w+(?:, \w+)*)(?:: tl\.constexpr)? = (.*)", re.DOTALL)
_LOOP = re.compile(r"for (\w+) in (.*):")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
# In an expression, these do more than give a value.
_EFFECTS = ("tl.atomic_", "device_assert", "is_pure=False")


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
            has_effect = any(effect in value for effect in _EFFECTS)
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
        defining: dict[str, list[Statement]] = defaultdict(list)
        around: dict[Statement, Statement] = {}
        loops: list[PrintedLine] = []
        for line in lines:
            line.statement.is_needed = False
            for name in line.statement.defines:
                defining[name].append(line.statement)
            while loops and loops[-1].depth >= line.depth:
                loops.pop()
            if loops:
                around[line.statement] = loops[-1].statement
            if line.line.endswith(":"):
                loops.append(line)
        needed = [line.statement for line in lines if line.statement.has_effect]
        while needed:
            statement = needed.pop()
            if statement.is_needed:
                continue
            statement.is_needed = True
            needed += (each for name in statement.reads for each in defining[name])
            if statement in around:
                needed.append(around[statement])

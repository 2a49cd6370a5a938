"""Locations of MLIR's text, resolved to the line that the user wrote."""

from __future__ import annotations

import re

from .ir import SourceLine
from .literals import read_string

_ENTRY = re.compile(r"^#(\w+) = loc\((.*)\)$", re.MULTILINE)
_FILE = re.compile(r'("(?:[^"\\]|\\.)*"):(\d+):(\d+)')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)', re.DOTALL)
_FUSED = re.compile(r"fused(?:<.*>)?\[(.*)\]", re.DOTALL)


class Locations:
    """The table `#loc12 = loc(...)` of a module.

    A location is a file position, a name for another location, several that were fused (the first known one counts), or
    a call site `callsite(callee at caller)`, for which the caller counts: that is the line in the user's kernel, not
    the one in Triton's standard library.
    """

    def __init__(self, text: str) -> None:
        self._entries = dict(_ENTRY.findall(text))
        self._resolved: dict[str, SourceLine | None] = {"unknown": None}

    def resolve(self, location: str) -> SourceLine | None:
        """The user's line for the text inside `loc(...)`, or None if it is not known."""
        try:
            return self._resolved[location]
        except KeyError:
            line = self._resolved[location] = self._read(location)
            return line

    def _read(self, location: str) -> SourceLine | None:
        if location.startswith("#"):
            entry = self._entries.get(location[1:])
            return self.resolve(entry) if entry is not None else None
        if match := _FILE.fullmatch(location):
            return SourceLine(read_string(match[1]), int(match[2]), int(match[3]))
        if location.startswith("callsite("):
            callee, caller = _split_callsite(location[len("callsite(") : -1])
            return self.resolve(caller) or self.resolve(callee)
        if match := _NAMED.fullmatch(location):
            return self.resolve(match[1])
        if match := _FUSED.fullmatch(location):
            return next((line for part in _split(match[1], ", ") if (line := self.resolve(part))), None)
        return None  # a name alone, or a kind of location that names no file


def _split_callsite(text: str) -> tuple[str, str]:
    callee, *callers = _split(text, " at ")
    return callee, " at ".join(callers)


def _split(text: str, separator: str) -> list[str]:
    """Split at `separator` outside parentheses, brackets and strings."""
    parts, depth, start, at, quoted = [], 0, 0, 0, False
    while at < len(text):
        character = text[at]
        if quoted:
            at += character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "([<":
            depth += 1
        elif character in ")]>":
            depth -= 1
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            at += len(separator)
            start = at
            continue
        at += 1
    parts.append(text[start:])
    return parts

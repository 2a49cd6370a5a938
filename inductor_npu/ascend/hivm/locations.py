"""Which line of the kernel's source an operation came from, where the IR says so.

The compiler keeps locations if the front end printed them (`--mlir-print-debuginfo`) and it runs with
`--enable-debug-info`.
"""

from __future__ import annotations

import re

from .ir import Location

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$")
_FILE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+):\d+$')
_NAMED = re.compile(r'^"(?:[^"\\]|\\.)*"\((.*)\)$', re.DOTALL)


class Locations:
    """The table of location aliases of a module, and what they stand for."""

    def __init__(self, lines: list[str]) -> None:
        self._texts: dict[str, str] = {}
        for line in lines:
            if line.startswith("#loc") and (match := _ALIAS.match(line)):
                self._texts[match.group(1)] = match.group(2)
        self._known: dict[str, Location | None] = {}

    def resolve(self, text: str) -> Location | None:
        """The line that `text`, the inside of `loc(...)`, names; of a call, the line that calls: the kernel's own."""
        if text not in self._known:
            self._known[text] = None  # also ends a cycle
            self._known[text] = self._resolve(text.strip())
        return self._known[text]

    def _resolve(self, text: str) -> Location | None:
        if text in self._texts:
            return self.resolve(self._texts[text])
        if match := _FILE.match(text):
            return Location(match.group(1), int(match.group(2))) if int(match.group(2)) else None
        if text.startswith("callsite("):
            callee, _, caller = text[len("callsite(") : -1].rpartition(" at ")
            return self.resolve(caller) or self.resolve(callee)
        if text.startswith("fused"):
            inside = text[text.index("[") + 1 : text.rindex("]")] if "[" in text else ""
            found = (self.resolve(part) for part in re.split(r",\s*", inside))
            return next((location for location in found if location), None)
        if match := _NAMED.match(text):
            return self.resolve(match.group(1))
        return None

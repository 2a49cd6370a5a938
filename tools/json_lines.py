"""A file of JSON lines that a sweep appends to: one object a line, whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any


class JsonLines:
    """The file at `path`, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The objects of the file, without the line that was being written when a sweep was killed."""
        for line in filter(None, self.path.read_text().splitlines() if self.path.exists() else ()):
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue

    def add(self, fields: Mapping[str, Any]) -> None:
        """Appends an object; creates the file and its folder with the first."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torn = self.path.exists() and not self.path.read_text().endswith("\n")
            self._file = self.path.open("a", buffering=1)
            self._file.write("\n" if torn else "")
        self._file.write(f"{json.dumps(fields)}\n")

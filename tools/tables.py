"""Tables kept in git: tab-separated, one line per object of a dataclass, so that differences are readable."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

Line = TypeVar("Line")

_FORM: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "escapechar": "\\"}


def read_table(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of the file `path`, as objects of the dataclass `kind`, whose fields are texts or whole numbers; none
    if the file is not there yet.
    """
    if not path.exists():
        return []
    numbers = [field.name for field in fields(kind) if field.type in (int, "int")]  # type: ignore[arg-type]
    with path.open(newline="") as file:
        rows = csv.DictReader(file, **_FORM)
        return [kind(**{**row, **{name: int(row[name]) for name in numbers}}) for row in rows]


def write_table(path: Path, kind: type[Line], lines: Iterable[Line]) -> None:
    """Writes `lines`, below one with the names of the fields."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", **_FORM)
        writer.writerow(field.name for field in fields(kind))  # type: ignore[arg-type]
        writer.writerows(astuple(line) for line in lines)  # type: ignore[call-overload]


def one_line(text: str, longest: int = 200) -> str:
    """`text` on one line, of at most `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."

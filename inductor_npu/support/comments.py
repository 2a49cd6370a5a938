"""Comments of source text, which say where generated code comes from."""

from __future__ import annotations

from collections.abc import Sequence


def comments_above(lines: Sequence[str], line: int) -> list[str]:
    """The texts of the comments among `lines` that end right above line `line` (from 1), from top to bottom."""
    comments: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.lstrip().startswith("#"):
            break
        comments.insert(0, text.lstrip().lstrip("#").strip())
    return comments

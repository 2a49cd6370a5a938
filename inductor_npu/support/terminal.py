"""Where rich's tables and bars go: a terminal, at its width, or a file, at their own."""

from __future__ import annotations

import io
import os
import shutil

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

# Characters of a line in a file or a log, and of text that a program prints itself.
LOG_WIDTH, TEXT_WIDTH = 160, 120


def output(stderr: bool = False) -> Console:
    """Standard output, or standard error."""
    console = Console(stderr=stderr)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=LOG_WIDTH, stderr=stderr)


def progress(console: Console, *more: ProgressColumn, transient: bool = False, disable: bool = False) -> Progress:
    """Bars: what is done, how much of it, for how long, and the columns `more`. `transient`: gone when all is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *more)
    return Progress(*columns, console=console, transient=transient, disable=disable)


def whole(*headers: str) -> list[Column]:
    """Columns of a table whose names and paths are broken into lines where they are too wide; rich's cut them short."""
    return [Column(header, overflow="fold") for header in headers]


def as_text(shown: RenderableType, width: int | None = None) -> str:
    """`shown` without colours, in lines of at most `width` characters (default: the terminal's)."""
    text = io.StringIO()
    width = width or shutil.get_terminal_size((TEXT_WIDTH, 24)).columns
    Console(file=text, width=width, no_color=True).print(shown)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

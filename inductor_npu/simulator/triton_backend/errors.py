"""What users see when a kernel cannot be compiled or loaded: subclasses of Triton's errors, which autotuners know."""

from __future__ import annotations

import linecache

from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources

from inductor_npu.support.comments import comments_above

from .ttir.ir import SourceLine
from .ttir.unified_buffer import LiveTile


class UnsupportedOperationError(CompilationError):
    """An operation that cannot be compiled for `npu`; the message shows the user's source line."""


def unsupported_operation(
    kernel: str, operation: str, line: SourceLine | None, reason: str
) -> UnsupportedOperationError:
    """The error for `operation` at `line` of `kernel`, with the line's text where the file can be read."""
    message = f"kernel {kernel}: {operation} cannot be compiled for npu: {reason}"
    return UnsupportedOperationError(excerpt(line), None, message)


def excerpt(line: SourceLine | None) -> str:
    """`line` with its text and a mark under the column, where the file can be read."""
    if line is None:
        return "(source line unknown)"
    text = linecache.getline(line.file, line.line).rstrip()
    if not text:
        return f"{line}:"
    return f"{line}:\n{text}\n{' ' * line.column}^"


def comment_above(line: SourceLine | None) -> str:
    """The lines of comment right above `line`, joined by commas; "" where there are none or the file cannot be read.

    Above a generated kernel stand its operators: `aten.gelu, aten.mul`.
    """
    return "" if line is None else ", ".join(comments_above(linecache.getlines(line.file), line.line))


class UnifiedBufferExceededError(OutOfResources):
    """A kernel whose live tiles do not fit an on-chip buffer of the target. Sizes are in bytes.

    `tiles` are the largest tiles that are live at the peak, as (bytes, type, source line) each; `advice` is what to do.
    """

    def __init__(
        self,
        required: int,
        limit: int,
        name: str,
        kernel: str = "",
        tiles: tuple[tuple[int, str, str], ...] = (),
        advice: str = "Use smaller block sizes.",
    ) -> None:
        super().__init__(required, limit, name)
        self.kernel = kernel
        self.tiles = tiles
        self.advice = advice

    def __str__(self) -> str:
        summary = (
            f"kernel {self.kernel} does not fit: {self.required} bytes of tiles are live at once, {self.name} has "
            f"{self.limit} bytes. {self.advice}"
        )
        lines = [summary]
        if self.tiles:
            lines.append("Largest tiles at the peak:")
            lines += [f"  {size} bytes  {type_}  {line or '(source line unknown)'}" for size, type_, line in self.tiles]
        return "\n".join(lines)

    def __reduce__(self) -> tuple:
        return type(self), (self.required, self.limit, self.name, self.kernel, self.tiles, self.advice)


def tile_record(tile: LiveTile) -> tuple[int, str, str]:
    """A tile as it is stored in a kernel's metadata."""
    return tile.bytes, str(tile.type), str(tile.line) if tile.line else ""

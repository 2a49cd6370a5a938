"""The report that users get: a checked program that shows itself."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_npu.ascend.report.as_json import as_json
from inductor_npu.ascend.report.html import as_html
from inductor_npu.ascend.report.model import CheckedProgram
from inductor_npu.ascend.report.table import render
from inductor_npu.support import terminal


@dataclass(frozen=True)
class Report(CheckedProgram):
    """A checked program, with the fields of `CheckedProgram`, as a table for terminals, as JSON, and as a page."""

    def table(self, width: int | None = None) -> str:
        """The report as text, `width` characters wide (default: the terminal's)."""
        return terminal.as_text(render(self), width)

    def to_json(self) -> str:
        """The report as JSON; the field "schema" counts up when a field changes its meaning or goes."""
        return as_json(self)

    def to_html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return as_html(self)

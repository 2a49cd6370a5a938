"""Findings as a table, with advice below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from inductor_npu.diagnostics.doctor.diagnosis import Finding
from inductor_npu.support import terminal


def render(findings: Sequence[Finding]) -> RenderableType:
    """A row for each finding, then a line of advice for each that is off."""
    table = Table.grid(*terminal.whole("", "", ""), padding=(0, 2))
    for finding in findings:
        mark = "[red]no[/]" if finding.fatal else "[yellow]?[/]" if finding.advice else "[green]ok[/]"
        table.add_row(mark, escape(finding.about), escape(finding.found))
    off = [finding for finding in findings if finding.advice]
    if not off:
        return Group(table, Text("inductor-npu generates the code for npu.", style="green"))
    advice = (
        Text(f"{finding.about.strip()}: {finding.advice}", style="red" if finding.fatal else "yellow")
        for finding in off
    )
    return Group(table, Text(), *advice)

"""The report as a table for a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from inductor_npu.ascend.hivm import Finding
from inductor_npu.ascend.report import advice
from inductor_npu.ascend.report.model import UNKNOWN, CheckedProgram, Row
from inductor_npu.support.units import bytes_text, count_text, plural, ratio_text, share_text

if TYPE_CHECKING:
    from inductor_npu.ascend.execute import Agreement
    from inductor_npu.ascend.lint import LintFinding

COLOURS = {
    **dict.fromkeys(("vector", "cube", "mixed"), "green"),
    "element DMA": "yellow",
    "scalar": "red",
    "refused": "bold red",
    "wrong code": "bold red",
    UNKNOWN: "magenta",
}
MOST_LINES = 2  # source lines and findings of one kernel; JSON and HTML have all
_PLACE = re.compile(r"kernel\.py:(\d+): ")  # what the toolchain calls the file of a kernel's text
PIPES = {
    "mte2": "MTE2",
    "vector": "vector",
    "mte3": "MTE3",
    "scalar": "scalar",
    "cube": "cube",
    "mte1": "MTE1",
    "fix": "fixpipe",
}


def render(report: CheckedProgram) -> RenderableType:
    """The report for rich's console: summary, table, what to write instead, what is not in it."""
    parts: list[RenderableType] = [_summary(report)]
    if report.arithmetic is not None and report.arithmetic.total:
        parts.append(Text(f"arithmetic, a call of each graph: {report.arithmetic.text()}"))
    if report.rows:
        notes: list[str] = []
        parts += [_table(report, notes), *_instead(notes), _legend()]
    parts += [
        Text.assemble(("not checked  ", "bold"), f"{omission.kernel}: {omission.reason}")
        for omission in report.omissions
    ]
    if report.advice:
        parts.append(Text(f"No kernel was launched on npu. {report.advice}"))
    return Group(*parts)


def _summary(report: CheckedProgram) -> Text:
    counts = [f"[{COLOURS[name]}]{count} {name}[/]" for name, count in report.counts.items() if count]
    moved, least = report.total("bytes_moved"), report.total("bytes_least")
    launches = sum(row.launches for row in report.rows)
    text = f"[bold]{escape(report.program)}[/] on {report.target}: {plural(len(report.rows), 'kernel')}"
    if counts:
        text += f" ({', '.join(counts)}), {plural(launches, 'launch')}"
    if wrong := sum(row.is_wrong for row in report.rows):
        text += f", [bold red]{plural(wrong, 'kernel')} with wrong results[/]"
    if moved is not None and report.rows:
        text += f", {bytes_text(moved)} moved ({ratio_text(moved, least)} of the least)"
    return Text.from_markup(text)


def _table(report: CheckedProgram, notes: list[str]) -> Table:
    """A row a kernel. `notes` gets what to write instead, which the rows refer to by number."""
    table = Table(box=box.HORIZONTALS, pad_edge=False, expand=True, show_lines=True)
    table.add_column("Kernel, launches\nOperators\nSource", ratio=5, overflow="fold")
    table.add_column("Verdict\nWhy", ratio=5, overflow="fold")
    table.add_column("Unified\nBuffer", justify="right", min_width=11, no_wrap=True)
    table.add_column("Device memory\nof a launch", justify="right", min_width=14, no_wrap=True)
    table.add_column("Vector in-\nstructions", justify="right", min_width=10, no_wrap=True)
    table.add_column("Cycles of\na launch", justify="right", min_width=13, no_wrap=True)
    for row in report.rows:
        instructions = count_text(row.vector_instructions)
        table.add_row(_kernel(row), _verdict(row, notes), _buffer(row), _memory(row), instructions, _cycles(row))
    return table


def _kernel(row: Row) -> Text:
    text = Text.assemble((row.kernel, "bold"), "" if row.launches == 1 else f"  x {row.launches}")
    if row.operators:
        text.append("\n" + ", ".join(row.operators), "cyan")
    for line in row.lines[:MOST_LINES]:
        text.append("\n" + line, "dim")
    if len(row.lines) > MOST_LINES:
        text.append(f"\nand {plural(len(row.lines) - MOST_LINES, 'line')} more", "dim")
    return text


def _verdict(row: Row, notes: list[str]) -> Text:
    text = Text(row.verdict, COLOURS[row.verdict])
    if row.refusal is not None:
        text.append(f"\n{row.refusal.stage}: {row.refusal.message}")
        _append_note(text, advice.for_refusal(row.refusal), notes)
        if row.refusal.reproduction:
            text.append(f"\nsaved in {row.refusal.reproduction}", "dim")
    findings = sorted(row.findings, key=lambda finding: finding.kind == "S1")  # what costs little comes last
    for finding in findings[:MOST_LINES]:
        text.append(f"\n{finding_text(row, finding)}", "dim" if finding.kind == "S1" else "")
        _append_note(text, advice.for_finding(finding), notes)
    if len(findings) > MOST_LINES:
        text.append(f"\nand {len(findings) - MOST_LINES} more", "dim")
    for warning in row.warnings[:MOST_LINES]:
        text.append(f"\n{warning_text(row, warning)}", "bold red")
        _append_note(text, warning.about.advice, notes)
    if row.agreement is not None:
        style = "bold red" if row.is_wrong else "green" if row.agreement.verdict.value == "agrees" else "dim"
        text.append(f"\n{agreement_text(row.agreement)}", style)
    if row.verdict == UNKNOWN:
        text.append("\n" + " ".join(row.assumptions))
    return text


def agreement_text(agreement: Agreement) -> str:
    """`run: differs: ...`."""
    return f"run: {agreement.verdict.value}" + (f": {agreement.message}" if agreement.message else "")


def warning_text(row: Row, warning: LintFinding) -> str:
    """`N101 wrong: reversed mask: mask of a store: ..., line 7: tl.store(...)`, a line of the kernel's text."""
    about, lines = warning.about, row.source.splitlines()
    place = "" if warning.line is None else f", line {warning.line}"
    if warning.line is not None and 0 < warning.line <= len(lines):
        place += f": {lines[warning.line - 1].strip()}"
    return f"{about.id} {about.severity.value}: {about.title}: {warning.what}{place}"


def finding_text(row: Row, finding: Finding) -> str:
    """`load in bursts of 4 bytes (64 elements), line 7: x = tl.load(p + 3 * i)`, a line of the kernel's text."""
    text, place = finding.what, ""
    if found := _PLACE.match(text):
        text, number = text[found.end() :], int(found[1])
        lines = row.source.splitlines()
        place = f", line {number}" + (f": {lines[number - 1].strip()}" if 0 < number <= len(lines) else "")
    elements = "" if finding.elements is None else f" ({plural(finding.elements, 'element')})"
    return text + elements + place


def _append_note(text: Text, note: str | None, notes: list[str]) -> None:
    if note is not None:
        if note not in notes:
            notes.append(note)
        text.append(f" [{notes.index(note) + 1}]", "bold")


def _instead(notes: list[str]) -> list[Text]:
    """The list that the numbers in the table refer to."""
    if not notes:
        return []
    lines = [Text.assemble((f"[{number}] ", "bold"), note) for number, note in enumerate(notes, 1)]
    return [Text("What to write instead", "bold"), *lines, Text("")]


def _buffer(row: Row) -> str:
    if row.ub_bytes is None:
        return "-"
    double = f"{row.buffers_doubled} doubled" if row.buffers_doubled else "not doubled" if row.loops_over_tiles else ""
    lines = [bytes_text(row.ub_bytes), share_text(row.ub_share), double]
    if row.cube is not None:
        lines += [f"L1 {bytes_text(row.l1_bytes or 0)}", f"L0C {bytes_text(row.l0c_bytes or 0)}"]
    if row.cube is not None and row.cube.workspace_bytes:
        lines.append(f"ws {bytes_text(row.cube.workspace_bytes)}")
    return "\n".join(line for line in lines if line)


def _memory(row: Row) -> str:
    if row.bytes_least is None:
        return "-"
    least = bytes_text(row.bytes_least)
    if row.bytes_moved is None:
        return f"-\nleast {least}"
    return f"{bytes_text(row.bytes_moved)}\nleast {least}\n{ratio_text(row.bytes_moved, row.bytes_least)}"


def _cycles(row: Row) -> Text:
    if row.cycles is None:
        return Text("-")
    bound = row.bound or ""
    text = Text(f"{count_text(getattr(row.cycles, bound))} {PIPES[bound]}", "bold")
    if row.busy:
        uses = ", ".join(f"{share_text(share)} {name}" for name, share in row.busy.items())
        text = Text(f"{count_text(row.longest)} in all\n{uses}\nbound by {PIPES[bound]}\n", "bold") + text
    for name, label in PIPES.items():
        cycles = getattr(row.cycles, name)
        if cycles and name != bound:
            text.append(f"\n{count_text(cycles)} {label}", "dim")
    return text


def _legend() -> Text:
    return Text(
        "Cycles are estimates from the compiled kernel for its busiest core, not measurements; pipes run side by side, "
        "the first one named takes longest. Percent: the share of a launch in which cube and vector cores are at work. "
        "Least: each tensor that is read once, each that is written once. Arithmetic: matrix products, attention and "
        "convolutions in compiled graphs, as torch.utils.flop_counter counts.",
        "dim",
    )

"""The report as one HTML page that needs nothing else: no script, no font, no other file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from inductor_npu.ascend.report import advice
from inductor_npu.ascend.report.model import UNKNOWN, CheckedProgram, Row
from inductor_npu.ascend.report.table import PIPES, agreement_text, finding_text, warning_text
from inductor_npu.support.units import bytes_text, count_text, plural, ratio_text, share_of, share_text

# A class for the colour and a sign for those who do not see it.
_LOOKS = {
    "refused": ("v-refused", "✕"),
    UNKNOWN: ("v-unknown", "?"),
    "scalar": ("v-scalar", "▲"),
    "element DMA": ("v-element", "◆"),
    "vector": ("v-vector", "✓"),
    "cube": ("v-vector", "✓"),
    "mixed": ("v-vector", "✓"),
    "wrong code": ("v-refused", "✕"),
}
_STAGES = {
    "front end": "Ascend's Triton front end",
    "adapter": "triton-adapter-opt (TTIR to Linalg)",
    "bishengir": "bishengir-compile (Linalg to HIVM)",
}
_ENDS = 20  # letters of each end of a long name
_MOST_RANKED = 12  # kernels in the overview; all are below it
_SHOWN_FINDINGS = 3  # of one kernel, beside those with other advice; the rest is folded away


def as_html(report: CheckedProgram) -> str:
    """The whole page."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    body = [_header(report), _tiles(report), _ranking(report), _kernels(report), _omissions(report), _footer(report)]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.program)} on {escape(report.target)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{"".join(body)}</main>
</body>
</html>
"""


def _header(report: CheckedProgram) -> str:
    alerts = ""
    if report.status:
        how = f"signal {-report.status}" if report.status < 0 else f"exit status {report.status}"
        alerts += f'<p class="alert">The program failed ({how}). This is what was checked until then.</p>\n'
    if report.advice:
        alerts += f'<p class="alert">No kernel was launched on npu. {escape(report.advice)}</p>\n'
    return (
        f"<header>\n<h1>{escape(report.program)}</h1>\n"
        f'<p class="sub">What Ascend\'s own compiler makes of its kernels for {escape(report.target)}, '
        "without the chip.</p>\n"
        f"{alerts}</header>\n"
    )


def _tiles(report: CheckedProgram) -> str:
    if not report.rows:
        return ""
    shown = {verdict: count for verdict, count in report.counts.items() if count}
    shares = "".join(
        f'<i class="fill {_LOOKS[verdict][0]}" style="flex:{count}"></i>' for verdict, count in shown.items()
    )
    key = "".join(
        f'<span class="{look}"><span class="sign">{sign}</span> <b>{shown[verdict]}</b> {verdict}</span>'
        for verdict, (look, sign) in _LOOKS.items()
        if verdict in shown
    )
    if wrong := sum(row.is_wrong for row in report.rows):
        key += f'<span class="v-refused"><span class="sign">✕</span> <b>{wrong}</b> with wrong results</span>'
    launches = sum(row.launches for row in report.rows)
    moved, least, cost = report.total("bytes_moved"), report.total("bytes_least"), report.total("longest")
    kernels = plural(len(report.rows), "kernel")
    return (
        '<section class="tiles">\n'
        f'<div class="panel tile"><div class="label">Verdicts</div><div class="big">{kernels}</div>'
        f'<div class="stack">{shares}</div><div class="key">{key}</div></div>\n'
        + _tile("Launches", f"{launches}", "in the whole program")
        + _tile(
            "Device memory", bytes_text(moved), f"moved, {ratio_text(moved, least)} of the least ({bytes_text(least)})"
        )
        + _tile("Estimated cycles", count_text(cost), "of the longest pipe, all launches")
        + _arithmetic(report)
        + "</section>\n"
    )


def _arithmetic(report: CheckedProgram) -> str:
    if report.arithmetic is None or not report.arithmetic.total:
        return ""
    done = share_of(report.arithmetic.in_kernels, report.arithmetic.total)
    return _tile("Arithmetic", f"{done} in kernels", f"a call of each graph: {escape(report.arithmetic.text())}")


def _tile(label: str, big: str, note: str) -> str:
    return (
        f'<div class="panel tile"><div class="label">{label}</div><div class="big">{big}</div>'
        f'<div class="note">{note}</div></div>\n'
    )


def _ranking(report: CheckedProgram) -> str:
    rows = report.rows[:_MOST_RANKED]
    if len(report.rows) < 2:
        return ""
    most = max((row.cost or 0 for row in report.rows), default=0) or 1
    more = f'<p class="none">and {len(report.rows) - len(rows)} more below</p>' if len(report.rows) > len(rows) else ""
    lines = "".join(_rank(row, most) for row in rows)
    return (
        "<h2>What costs most</h2>\n"
        f'<section class="panel ranking">\n{lines}{more}</section>\n'
        '<p class="none">Estimated cycles of the pipe that takes longest, on the busiest core, over all launches. '
        "Kernels that were refused do not run at all and come first.</p>\n"
    )


def _rank(row: Row, most: int) -> str:
    look, sign = _LOOKS[row.verdict]
    if row.cost is None:
        bar, amount = f'<span class="none">{_first_reason(row)}</span>', row.verdict
    else:
        bar = f'<span class="bar"><i class="fill" style="width:{row.cost / most:.2%}"></i></span>'
        amount = f"{count_text(row.cost)} cycles"
    return (
        f'<a class="rank {look}" href="#{row.key}"><span class="name mono"><span class="sign">{sign}</span> '
        f'{escape(_short(row.kernel))}</span>{bar}<span class="amount">{amount}</span></a>\n'
    )


def _short(name: str) -> str:
    """`name` on one line: its middle goes first, as Inductor's names begin alike and end in a number."""
    return name if len(name) <= 2 * _ENDS + 1 else f"{name[:_ENDS]}…{name[-_ENDS:]}"


def _first_reason(row: Row) -> str:
    return escape(row.refusal.message if row.refusal is not None else "no estimate")


def _kernels(report: CheckedProgram) -> str:
    if not report.rows:
        return ""
    return "<h2>Kernels</h2>\n" + "".join(_kernel(row, report.unified_buffer) for row in report.rows)


def _kernel(row: Row, unified_buffer: int) -> str:
    look, sign = _LOOKS[row.verdict]
    grid = " x ".join(str(size) for size in row.grid if size != 1) or "1"
    times = f"{plural(row.launches, 'launch')}, grid {grid}"
    return (
        f'<article class="panel kernel {look}" id="{row.key}">\n'
        f'<div class="head"><h3 class="mono">{escape(row.kernel)}</h3>'
        f'<span class="badge">{sign} {row.verdict}</span></div>\n'
        f'<div class="origin">{times}{_operators(row)}{_lines(row)}</div>\n'
        f"{_numbers(row, unified_buffer)}{_findings(row)}{_assumptions(row)}"
        f"<details><summary>Kernel source</summary><pre>{_numbered(row.source)}</pre></details>\n</article>\n"
    )


def _operators(row: Row) -> str:
    return f' · <span class="ops">{escape(", ".join(row.operators))}</span>' if row.operators else ""


def _lines(row: Row) -> str:
    lines = "".join(f'<li class="mono">{escape(line)}</li>' for line in row.lines)
    return f"<ul>{lines}</ul>" if lines else ""


def _numbers(row: Row, unified_buffer: int) -> str:
    if row.ub_bytes is None:
        return ""
    if row.buffers_doubled:
        double = f"double-buffered: {plural(row.buffers_doubled, 'tile')}"
    else:
        double = "not double-buffered" if row.loops_over_tiles else "no loop over tiles"
    return (
        '<div class="numbers">\n'
        f'<div><div class="label">Unified Buffer</div><div class="value">{bytes_text(row.ub_bytes)} '
        f"<small>{share_text(row.ub_share)} of {bytes_text(unified_buffer)}, {double}</small></div>"
        f"{_bar(row.ub_share or 0.0)}</div>\n"
        f"{_cube(row)}{_memory(row)}{_pipes(row)}</div>\n"
    )


def _cube(row: Row) -> str:
    """Of a kernel with dots: the cube core's buffers, and the workspace between it and the vector cores."""
    if row.cube is None:
        return ""
    double = f"{plural(row.cube.l1_doubled, 'tile')} double-buffered" if row.cube.l1_doubled else "one buffer each"
    words = f"{bytes_text(row.l1_bytes or 0)} <small>L1, {double}; L0C {bytes_text(row.l0c_bytes or 0)}"
    if row.cube.workspace_bytes:
        words += (
            f"; workspace {bytes_text(row.cube.workspace_bytes)} a core, {plural(row.cube.workspace_depth, 'tile')}"
        )
    return f'<div><div class="label">Cube core</div><div class="value">{words}</small></div></div>\n'


def _memory(row: Row) -> str:
    least, moved = row.bytes_least or 0, row.bytes_moved
    most = max(least, moved or 0) or 1
    if moved is None:
        words = f"<small>not known: it depends on data; least {bytes_text(least)}</small>"
        bars = ""
    else:
        words = f"{bytes_text(moved)} <small>{ratio_text(moved, least)} of the least, {bytes_text(least)}</small>"
        bars = _bar(moved / most) + _bar(least / most, "least")
    label = '<div class="label">Device memory, a launch</div>'
    return f'<div class="twin">{label}<div class="value">{words}</div>{bars}</div>\n'


def _pipes(row: Row) -> str:
    label, pipes = "Cycles, a launch", '<div class="none">no estimate</div>'
    if row.cycles is not None:
        label = f"Estimated cycles, a launch: bound by {PIPES[row.cycles.bound]}"
        used = [name for name in PIPES if getattr(row.cycles, name) or name not in ("cube", "mte1", "fix")]
        longest = int(getattr(row.cycles, row.cycles.bound)) or 1
        pipes = "".join(_pipe(name, int(getattr(row.cycles, name)), longest) for name in used)
        if row.cycles.launch is not None:
            label += f"; {count_text(row.cycles.launch)} in all"
            label += "".join(f", {share_text(share)} {name}" for name, share in row.busy.items())
    if row.vector_instructions is not None:
        label += f"; {count_text(row.vector_instructions)} vector instructions"
    return f'<div class="wide"><div class="label">{label}</div>{pipes}</div>\n'


def _pipe(name: str, cycles: int, longest: int) -> str:
    bound, unit = (" bound", " cycles") if cycles == longest else ("", "")
    return (
        f'<div class="pipe{bound}"><span>{PIPES[name]}</span>{_bar(cycles / longest)}'
        f'<span class="amount">{count_text(cycles)}{unit}</span></div>'
    )


def _bar(share: float, kind: str = "") -> str:
    return f'<span class="bar {kind}"><i style="width:{min(share, 1.0):.2%}"></i></span>'


def _findings(row: Row) -> str:
    """What is wrong with a kernel, in words, with what to write instead where it was not said before."""
    items = []
    if row.agreement is not None:
        look = "v-refused" if row.is_wrong else "small"
        items.append(f'<li class="{look}">{_sentence(agreement_text(row.agreement))}</li>\n')
    if row.refusal is not None:
        stage = _STAGES.get(row.refusal.stage, row.refusal.stage)
        what = "The compiler broke in" if row.refusal.crashed else "Refused by"
        words = f"{what} {stage}: {escape(row.refusal.message)}"
        if row.refusal.reproduction:
            words += f"<br>Kernel and command are saved in <code>{escape(row.refusal.reproduction)}</code>"
        items.append(f"<li>{words}{_instead(advice.for_refusal(row.refusal))}</li>\n")
    for warning in row.warnings:
        words = f"{_sentence(warning_text(row, warning))}{_instead(warning.about.advice)}"
        items.append(f'<li class="v-refused">{words}</li>\n')
    shown, folded = _compiler_findings(row)
    items += shown
    text = f'<ul class="findings">\n{"".join(items)}</ul>\n' if items else ""
    if folded:
        title = plural(len(folded), "more finding")
        text += f'<details><summary>{title}</summary><ul class="findings">\n{"".join(folded)}</ul></details>\n'
    return text


def _compiler_findings(row: Row) -> tuple[list[str], list[str]]:
    """Items for the findings in the final IR: those that are shown (the first few, and each that has other advice), and
    those that are folded away.
    """
    shown: list[str] = []
    folded: list[str] = []
    said: set[str | None] = {None}
    for finding in sorted(row.findings, key=lambda finding: finding.kind == "S1"):
        look = ' class="small"' if finding.kind == "S1" else ""
        instead = advice.for_finding(finding)
        news = None if instead in said else instead
        item = f"<li{look}>{_sentence(finding_text(row, finding))}{_instead(news)}</li>\n"
        (shown if news is not None or len(shown) < _SHOWN_FINDINGS else folded).append(item)
        said.add(instead)
    return shown, folded


def _sentence(text: str) -> str:
    text = text if text.split(" ")[0].count("_") else text[:1].upper() + text[1:]
    return escape(text)


def _numbered(source: str) -> str:
    lines = source.rstrip().splitlines()
    return "\n".join(f"<i>{number:3}</i>  {escape(line)}" for number, line in enumerate(lines, 1))


def _instead(text: str | None) -> str:
    """What to write instead; `code` in backticks."""
    if text is None:
        return ""
    parts = escape(text).split("`")
    marked = "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
    return f'<span class="instead"><b>Instead:</b> {marked}</span>'


def _assumptions(row: Row) -> str:
    if not row.assumptions:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in row.assumptions)
    title = plural(len(row.assumptions), "assumption")
    return f'<details><summary>{title}</summary><ul class="assumptions">{items}</ul></details>\n'


def _omissions(report: CheckedProgram) -> str:
    items = "".join(
        f"<li><code>{escape(omission.kernel)}</code>: {escape(omission.reason)}</li>" for omission in report.omissions
    )
    return f'<h2>Not checked</h2>\n<section class="panel ranking"><ul>{items}</ul></section>\n' if items else ""


def _footer(report: CheckedProgram) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return (
        "<footer>Cycles are estimates from the compiled kernel for its busiest core, not measurements; the pipes run "
        "side by side. Least: each tensor that is read, once, and each that is written, once. Arithmetic: matrix "
        "products, attention and convolutions in compiled graphs, as torch.utils.flop_counter counts. "
        f"Made with {escape(versions)}.</footer>\n"
    )

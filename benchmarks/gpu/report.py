"""Results as Markdown, line by line while they come and as tables at the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.case import GROUPS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = (f"<!-- {edge} of the measured gpu -->" for edge in ("begin", "end"))

Result = dict[str, Any]
Content = dict[str, Any]

KERNEL_HEADER = ("Case", "ours ms", "stock ms", "eager ms", "stock / ours", "eager / ours", "ours of copy bandwidth")
MODEL_HEADER = ("Case", "ours ms", "stock ms", "eager ms", "stock / ours", "eager / ours", "error", "stock's error")
PROBLEM_HEADER = (
    *("Case", "ours ms", "stock ms", "eager ms", "stock / ours", "eager / ours"),
    *("memory, ours / stock", "ours / eager", "first call, ours / stock"),
)
SMALL_HEADER = (
    "Case",
    *(f"{side}, {what}" for what in ("returns", "done", "in a row") for side in ("ours", "stock")),
    "eager, done",
    "stock / ours, done",
    "in a row",
)
LAUNCH_HEADER = ("Case", "launches", "ours", "stock", "stock / ours", "ours, all", "stock, all")
COMPILE_HEADER = ("Case", "ours s", "stock s", "ours / stock")


def markdown(content: Content) -> str:
    """All tables, with what they were measured on."""
    lines = [machine_line(content), ""]
    for group, title in GROUPS.items():
        results = [result for result in content["results"] if result["group"] == group and _is_measured(result)]
        if results:
            header, row = ROWS[group]
            rows = [row(result, content) for result in results]
            lines += [f"### {title}", "", *_table(header, [*rows, *_means(group, results, len(header))]), ""]
    others = [result for result in content["results"] if not _is_measured(result)]
    if others:
        told = [
            [f"{result['group']}: {result['name']}", result["status"], _cell(result["reason"])] for result in others
        ]
        lines += ["### Not measured", "", *_table(("Case", "", "Reason"), told), ""]
    return "\n".join(lines)


def machine_line(content: Content) -> str:
    """What the numbers were measured on, in a sentence."""
    facts = ", ".join(f"{key} {value}" for key, value in content["machine"].items())
    rates = ", ".join(f"{name} {rate / 1e12:.2f} TB/s" for name, rate in content["bandwidth"].items())
    return f"Measured on {facts}. A copy on the device, bytes read and written: {rates or 'failed'}."


def line(result: Result, content: Content) -> str:
    """One result, for a terminal."""
    if not _is_measured(result):
        return f"{result['group']}: {result['name']}: {result['status']}: {result['reason']}"
    name, *cells = ROWS[result["group"]][1](result, content)
    return f"{result['group']}: {name}: {' | '.join(cells)} (took {result['took']:.0f} s)"


def header_line(group: str) -> str:
    """What the numbers of `line` are."""
    return f"{group}: {' | '.join(ROWS[group][0])}"


def write_document(content: Content) -> None:
    """Replaces the tables of section "On a GPU" of docs/benchmarks.md."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{DOCUMENT} has no line {END!r}"
    DOCUMENT.write_text(f"{before}{BEGIN}\n{markdown(content)}{END}{after}")


def _is_measured(result: Result) -> bool:
    return result["status"] == "measured"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines: list[Sequence[str]] = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _name(result: Result) -> str:
    return f"{result['name']} (DIFFERS: {result['error']:.1e})" if result.get("differs") else result["name"]


def _kernel_row(result: Result, content: Content) -> list[str]:
    rate = content["bandwidth"].get("stock")
    share = f"{result['bytes'] / result['ours'] / rate:.0%}" if rate else ""
    return [*_times(result), share]


def _model_row(result: Result, content: Content) -> list[str]:
    return [*_times(result), f"{result['error']:.1e}", f"{result['error_of_stock']:.1e}"]


def _problem_row(result: Result, content: Content) -> list[str]:
    pairs = [("ours_peak", "stock_peak"), ("ours_peak", "eager_peak"), ("ours_first", "stock_first")]
    return [*_times(result), *(f"{result[one] / (result[other] or 1):.2f}" for one, other in pairs)]


def _times(result: Result) -> list[str]:
    times = [f"{result[side] * 1e3:.3f}" for side in ("ours", "stock", "eager")]
    ratios = [f"{result[side] / result['ours']:.2f}" for side in ("stock", "eager")]
    return [_name(result), *times, *ratios]


def _small_row(result: Result, content: Content) -> list[str]:
    times = [
        f"{result[f'{side}_{what}'] * 1e6:.1f}" for what in ("host", "done", "in_a_row") for side in ("ours", "stock")
    ]
    ratios = [f"{result[f'stock_{what}'] / result[f'ours_{what}']:.2f}" for what in ("done", "in_a_row")]
    return [_name(result), *times, f"{result['eager_done'] * 1e6:.1f}", *ratios]


def _launch_row(result: Result, content: Content) -> list[str]:
    counts = [f"{result[f'{side}_{kernels}_launches']}" for side in ("ours", "stock") for kernels in (10, 100)]
    each = [f"{result[side] * 1e6:.2f}" for side in ("ours", "stock")]
    everything = [f"{result[f'{side}_100'] * 1e6:.1f}" for side in ("ours", "stock")]
    return [result["name"], " / ".join(counts), *each, f"{result['stock'] / result['ours']:.2f}", *everything]


def _compile_row(result: Result, content: Content) -> list[str]:
    times = [f"{result[side]:.2f}" for side in ("ours", "stock")]
    return [result["name"], *times, f"{result['ours'] / result['stock']:.2f}"]


def _means(group: str, results: list[Result], columns: int) -> list[list[str]]:
    """The geometric mean of each ratio, and the least, where there are several results."""
    if group not in ("kernels", "models", "kernelbench") or len(results) < 2:
        return []
    rows = []
    for title, summary in (("geometric mean", statistics.geometric_mean), ("least", min)):
        ratios = [summary([result[side] / result["ours"] for result in results]) for side in ("stock", "eager")]
        cells = [title, "", "", "", *(f"{ratio:.2f}" for ratio in ratios)]
        rows.append(cells + [""] * (columns - len(cells)))
    return rows


ROWS: dict[str, tuple[tuple[str, ...], Callable[[Result, Content], list[str]]]] = {
    "kernels": (KERNEL_HEADER, _kernel_row),
    "models": (MODEL_HEADER, _model_row),
    "kernelbench": (PROBLEM_HEADER, _problem_row),
    "small": (SMALL_HEADER, _small_row),
    "launches": (LAUNCH_HEADER, _launch_row),
    "compile": (COMPILE_HEADER, _compile_row),
}

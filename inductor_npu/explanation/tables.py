"""An explanation as tables: one for each thing that there is something to say about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from inductor_npu.codegen.provenance import Line
from inductor_npu.compile_time.table import table as table_of_times

if TYPE_CHECKING:
    from rich.console import RenderableType

    from inductor_npu.explanation.data import Explanation, Graph, Kernel

_MOST_KERNELS = 40
_MOST_LINES = 3
_KIB = 1024
# The rest of a function behind a graph break, by its number of a line or an instruction.
_REST = re.compile(r"torch_dynamo_resume_in_(?P<function>.*)_at_\d+$")


def shown(explanation: Explanation) -> RenderableType:
    """One line with the counts, then the tables."""
    if not explanation.happened:
        return Text("Nothing was compiled or loaded: the call ran what an earlier call had compiled, or eager Python.")
    tables = [
        _graphs(explanation),
        _breaks(explanation),
        _recompiles(explanation),
        _kernels(explanation),
        _library_calls(explanation),
        _left_to_eager(explanation),
        _caches(explanation),
        *([table_of_times(explanation.times)] if explanation.times.graphs else []),
    ]
    return Group(Text(headline(explanation), style="bold"), *(table for table in tables if table is not None))


def headline(explanation: Explanation) -> str:
    """How many there are of each, and what the kernels move."""
    in_eager = len(explanation.left_to_eager) + len(explanation.eager_functions)
    counts = (
        _count(len(explanation.graphs), "graph"),
        _count(sum(each.times for each in explanation.graph_breaks), "graph break"),
        _count(len(explanation.recompiles), "recompile"),
        _count(len(explanation.kernels), "kernel"),
        _count(sum(call.calls for call in explanation.library_calls), "library call"),
        f"{in_eager} left to eager",
        f"{size(explanation.bytes_read)} read, {size(explanation.bytes_written)} written",
    )
    return "; ".join(counts)


def size(number: int | None) -> str:
    """Bytes as people read them."""
    if number is None:
        return "?"
    for unit, factor in (("GiB", _KIB**3), ("MiB", _KIB**2), ("KiB", _KIB)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str | None = None) -> Table | None:
    """None without rows. A column whose name begins with > is aligned to the right."""
    rows = list(rows)
    if not rows:
        return None
    made = Table(
        title=title, title_justify="left", caption=note, caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in columns:
        made.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def _where(line: Line | None) -> str:
    return "" if line is None else f"{Path(line.file).name}:{line.line}"


def _function(name: str | None, line: Line | None) -> str:
    """The name and where the function begins; the rest of one that was broken begins behind the break."""
    if name is None:
        return ""
    rest = _REST.match(name)
    return f"rest of {rest['function']}, {_where(line)}" if rest else f"{name}, {_where(line)}"


def _lines(lines: Sequence[Line]) -> str:
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return "\n".join([*(f"{_where(line)}  {line.text}".rstrip() for line in lines[:_MOST_LINES]), *more])


def _places(lines: Sequence[Line]) -> str:
    """Without the lines' text, for a table with many columns."""
    return _lines([Line(line.file, line.line, "") for line in lines])


def _graphs(explanation: Explanation) -> Table | None:
    columns = ("Graph", "Function", "Pass", ">Kernels", ">Library", ">Eager", ">Read", ">Written", "From")
    return _table(
        "Graphs",
        columns,
        (
            (
                graph.compile_id,
                _function(graph.function, graph.line),
                graph.pass_.value,
                str(len(graph.kernels)),
                str(sum(call.calls for call in graph.library_calls)),
                str(len(graph.left_to_eager)),
                size(graph.bytes_read),
                size(graph.bytes_written),
                "cache" if graph.found else "compiler",
            )
            for graph in explanation.graphs
        ),
    )


def _breaks(explanation: Explanation) -> Table | None:
    return _table(
        "Graph breaks",
        ("Where", "Reason", "What to do", ">Times"),
        (
            (
                "" if each.line is None else f"{_where(each.line)}\n{each.line.text}",
                "\n".join(filter(None, (each.reason, each.explanation))),
                "\n".join(each.hints),
                str(each.times),
            )
            for each in explanation.graph_breaks
        ),
    )


def _recompiles(explanation: Explanation) -> Table | None:
    return _table(
        "Recompiles",
        ("Graph", "Function", "Guards that failed"),
        (
            (each.compile_id, _function(each.function, each.line), "\n".join(each.guards))
            for each in explanation.recompiles
        ),
    )


def _kernels(explanation: Explanation) -> Table | None:
    every = [(graph, kernel) for graph in explanation.graphs for kernel in graph.kernels]
    largest = sorted(every, key=lambda each: -_moved(each[1]))[:_MOST_KERNELS]
    left_out = len(every) - len(largest)
    return _table(
        "Kernels",
        ("Graph", "Kernel", "Operators", "Source", ">Launches", ">Read", ">Written"),
        (_kernel(graph, kernel) for graph, kernel in (every if not left_out else largest)),
        f"and {left_out} that move less" if left_out else None,
    )


def _moved(kernel: Kernel) -> int:
    return (kernel.bytes_read or 0) + (kernel.bytes_written or 0)


def _kernel(graph: Graph, kernel: Kernel) -> tuple[str, ...]:
    return (
        graph.compile_id,
        kernel.name,
        "a kernel of yours" if kernel.written_by_user else ", ".join(kernel.operators),
        _places(kernel.lines),
        str(kernel.launches),
        size(kernel.bytes_read),
        size(kernel.bytes_written),
    )


def _library_calls(explanation: Explanation) -> Table | None:
    return _table(
        "Library calls",
        ("Graph", "Operator", "Source", ">Calls"),
        (
            (graph.compile_id, call.operator, _lines(call.lines), str(call.calls))
            for graph in explanation.graphs
            for call in graph.library_calls
        ),
    )


def _left_to_eager(explanation: Explanation) -> Table | None:
    functions = [
        ("", f"all of {each.function or 'a function'}", each.reason, _lines([each.line] if each.line else []), "")
        for each in explanation.eager_functions
    ]
    operators = [
        (graph.compile_id, ", ".join(left.operators), left.reason, _lines(left.lines), str(left.calls))
        for graph in explanation.graphs
        for left in graph.left_to_eager
    ]
    return _table("Left to eager", ("Graph", "Operators", "Reason", "Source", ">Calls"), [*functions, *operators])


def _caches(explanation: Explanation) -> Table | None:
    return _table(
        "Caches",
        ("Cache", ">Found", ">Missed", ">Not asked", "Why not"),
        (
            (each.cache, str(each.found), str(each.missed), str(each.bypassed), "\n".join(each.reasons))
            for each in explanation.caches
            if each.found or each.missed or each.bypassed
        ),
    )

"""An explanation as tables, without the empty ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from inductor_npu.codegen.annotations.provenance import Line
from inductor_npu.diagnostics.explanation.data import Graph, Kernel, Observed
from inductor_npu.support.units import bytes_text, operations_text, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_KERNELS = 40
_MOST_LINES = 3
# In place of bytes of device memory.
_ON_CPU = "on CPU"
# The rest of a function behind a graph break, by its number of a line or an instruction.
_REST = re.compile(r"torch_dynamo_resume_in_(?P<function>.*)_at_\d+$")


def shown(observed: Observed) -> RenderableType:
    """One line with the counts, one that says who does the arithmetic, then the tables."""
    if not observed.happened:
        return Text("Nothing was compiled or loaded: the call ran what an earlier call had compiled, or eager Python.")
    tables: list[RenderableType | None] = [
        _graphs(observed),
        _breaks(observed),
        _recompiles(observed),
        _kernels(observed),
        _library_calls(observed),
        _left_to_eager(observed),
        _compiled_without(observed),
        _captured(observed),
        _caches(observed),
        observed.times if observed.times.graphs else None,
    ]
    apart = [Padding(table, (1, 0, 0, 0), expand=False) for table in tables if table is not None]
    lines = [headline(observed), observed.arithmetic.text()]
    return Group(*(Text(line, style="bold") for line in lines if line), *apart)


def headline(observed: Observed) -> str:
    """How many there are of each, and what the kernels move."""
    in_eager = len(observed.left_to_eager) + len(observed.eager_functions)
    on_cpu = sum(kernel.on_cpu for kernel in observed.kernels)
    least = "at least " if any(kernel.moves_unknown for kernel in observed.kernels) else ""
    counts = (
        plural(len(observed.graphs), "graph"),
        plural(sum(each.times for each in observed.graph_breaks), "graph break"),
        plural(len(observed.recompiles), "recompile"),
        plural(len(observed.kernels), "kernel") + (f" ({on_cpu} on the CPU)" if on_cpu else ""),
        plural(sum(call.calls for call in observed.library_calls), "library call"),
        f"{in_eager} left to eager",
        f"{least}{_size(observed.bytes_read)} read, {_size(observed.bytes_written)} written",
    )
    return "; ".join(counts)


def _size(number: int | None) -> str:
    return "unknown" if number is None else bytes_text(number)


def _operations(count: int) -> str:
    return operations_text(count) if count else ""


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | RenderableType]], note: str | None = None
) -> Table | None:
    """None without rows. A column whose name begins with > has numbers."""
    rows = list(rows)
    if not rows:
        return None
    made = Table(
        title=title,
        title_justify="left",
        caption=note,
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        is_number = column.startswith(">")
        justify: Literal["left", "right"] = "right" if is_number else "left"
        made.add_column(column.removeprefix(">"), justify=justify, overflow="fold", no_wrap=is_number)
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def _indented(first: str, below: Iterable[str]) -> RenderableType:
    """`first`, and under it each of `below` that is not empty, to the right: one column in place of two, so that names
    and sentences have room in a narrow terminal.
    """
    return Group(
        Text(first, overflow="fold"), *(Padding(Text(line, overflow="fold"), (0, 0, 0, 2)) for line in below if line)
    )


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


def _graphs(observed: Observed) -> Table | None:
    columns = ("Graph", "Function, and pass", ">Kernels", ">Library", ">Eager", ">Read", ">Written")
    return _table(
        "Graphs",
        columns,
        (
            (
                graph.compile_id,
                _indented(_function(graph.function, graph.line), [_pass(graph)]),
                str(len(graph.kernels)),
                str(sum(call.calls for call in graph.library_calls)),
                str(len(graph.left_to_eager)),
                _size(graph.bytes_read),
                _size(graph.bytes_written),
            )
            for graph in observed.graphs
        ),
    )


def _pass(graph: Graph) -> str:
    return graph.pass_.value + (", from a cache" if graph.found else "")


def _breaks(observed: Observed) -> Table | None:
    return _table(
        "Graph breaks",
        ("Where", "Reason, and what to do", ">Times"),
        (
            (
                "" if each.line is None else f"{_where(each.line)}\n{each.line.text}",
                _indented(each.reason, [each.explanation, *(f"- {hint}" for hint in each.hints)]),
                str(each.times),
            )
            for each in observed.graph_breaks
        ),
    )


def _recompiles(observed: Observed) -> Table | None:
    return _table(
        "Recompiles",
        ("Graph", "Function", "Guards that failed"),
        ((each.compile_id, _function(each.function, each.line), _counted(each.guards)) for each in observed.recompiles),
    )


def _counted(texts: Sequence[str]) -> str:
    """Each of `texts` once, in a line of its own, with how often it is there."""
    return "\n".join(text + (f" ({times} times)" if times > 1 else "") for text, times in Counter(texts).items())


def _kernels(observed: Observed) -> Table | None:
    every = [(graph, kernel) for graph in observed.graphs for kernel in graph.kernels]
    largest = sorted(every, key=lambda each: (not each[1].moves_unknown, -_moved(each[1])))[:_MOST_KERNELS]
    left_out = len(every) - len(largest)
    return _table(
        "Kernels",
        ("Graph", "Kernel, and its operators", "Source", ">Launches", ">Read", ">Written"),
        (_kernel(graph, kernel) for graph, kernel in (every if not left_out else largest)),
        f"and {left_out} that move less" if left_out else None,
    )


def _moved(kernel: Kernel) -> int:
    return (kernel.bytes_read or 0) + (kernel.bytes_written or 0)


def _kernel(graph: Graph, kernel: Kernel) -> tuple[str | RenderableType, ...]:
    computes = "a Triton kernel of yours" if kernel.written_by_user else ", ".join(kernel.operators)
    moved = (_ON_CPU, _ON_CPU) if kernel.on_cpu else (_size(kernel.bytes_read), _size(kernel.bytes_written))
    return (
        graph.compile_id,
        _indented(kernel.name, [computes, _operations(kernel.operations), kernel.product]),
        _places(kernel.lines),
        str(kernel.launches),
        *moved,
    )


def _library_calls(observed: Observed) -> Table | None:
    return _table(
        "Library calls",
        ("Graph", "Operator, and why it is no kernel", "Source", ">Calls"),
        (
            (
                graph.compile_id,
                _indented(call.operator, [_operations(call.operations), call.reason]),
                _lines(call.lines),
                str(call.calls),
            )
            for graph in observed.graphs
            for call in graph.library_calls
        ),
    )


def _compiled_without(observed: Observed) -> Table | None:
    graphs = [(graph.compile_id, graph.compiled_without) for graph in observed.graphs]
    rows = [(name, _indented(left.left_out, [left.why])) for name, left in graphs if left is not None]
    return _table("Compiled without, because it failed", ("Graph", "Without, and why"), rows)


def _left_to_eager(observed: Observed) -> Table | None:
    functions = [
        (
            "",
            _indented(f"all of {each.function or 'a function'}", [each.reason]),
            _lines([each.line] if each.line else []),
            "",
        )
        for each in observed.eager_functions
    ]
    operators = [
        (
            graph.compile_id,
            _indented(", ".join(left.operators), [_operations(left.operations), left.reason]),
            _lines(left.lines),
            str(left.calls),
        )
        for graph in observed.graphs
        for left in graph.left_to_eager
    ]
    return _table("Left to eager", ("Graph", "Operators, and why", "Source", ">Calls"), [*functions, *operators])


def _captured(observed: Observed) -> Table | None:
    return _table(
        "Captured graphs",
        ("Function", ">Warmed up", ">Captured", ">Replayed", ">Skipped", "Why skipped"),
        (
            (
                each.function,
                str(each.warmed_up),
                str(each.captured),
                str(each.replayed),
                str(sum(calls for _, calls in each.skipped)),
                "\n".join(f"{reason} ({calls})" for reason, calls in each.skipped),
            )
            for each in observed.captured
        ),
    )


def _caches(observed: Observed) -> Table | None:
    return _table(
        "Caches",
        ("Cache", ">Found", ">Missed", ">Not asked", "Why not"),
        (
            (each.cache, str(each.found), str(each.missed), str(each.bypassed), _counted(each.reasons))
            for each in observed.caches
            if each.found or each.missed or each.bypassed
        ),
    )

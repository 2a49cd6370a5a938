"""Where a generated kernel came from: ATen operators and the user's source lines, remembered while someone asks.

Inductor knows a kernel's origins when it writes the kernel, and keeps them only as a comment. Here they are kept by the
text of the `@triton.jit` function, which is what is at hand when the kernel runs. A graph that comes from Inductor's
compile cache is not generated again: its kernels have no origins here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*\n\s*(?P<text>.*)$', re.MULTILINE)
# Higher-order operators of which kernels are made: all others call graphs, or kernels that a user wrote.
_COMPUTING = ("associative_scan",)


@dataclass(frozen=True)
class Line:
    """One line of the user's source."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Provenance:
    """Origins of one kernel: operators as `aten.gelu`, both in the graph's order without repetition.

    `failure` is why the kernel does not exist and its operators run in eager instead, else None.
    """

    operators: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    failure: str | None = None


_remembered: dict[str, Provenance] | None = None


@contextlib.contextmanager
def record() -> Iterator[dict[str, Provenance]]:
    """Remembers the origins of every kernel generated inside the `with` block, by `function_text` of the kernel.

    Raises RuntimeError inside another record.
    """
    global _remembered
    if _remembered is not None:
        raise RuntimeError("origins of kernels are being recorded already; end the surrounding record() first")
    _remembered = {}
    try:
        yield _remembered
    finally:
        _remembered = None


def remember(name: str, source: str, schedule: Sequence[Any], failure: Exception | None) -> None:
    """Called for each kernel that Inductor generates: `name` in the module text `source`, made of the scheduler's nodes
    `schedule`; `failure` is why it cannot be compiled. Does nothing outside of `record`.
    """
    if _remembered is None:
        return
    reason = None if failure is None else f"{type(failure).__name__}: {failure}"
    _remembered[function_text(name, source)] = Provenance(operators_of(schedule), lines_of(schedule), reason)


def remember_user_kernel(kernel: Any) -> None:
    """Called for each Triton kernel that a user wrote and a compiled graph launches, before Inductor copies it into a
    module of its own. Does nothing outside of `record`.
    """
    if _remembered is not None:
        _remembered[kernel.src] = Provenance(lines=(definition(kernel),))


def definition(kernel: Any) -> Line:
    """Where a JITFunction is defined: the line that says `def`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    offset = next(index for index, line in enumerate(lines) if line.lstrip().startswith("def "))
    return Line(inspect.getsourcefile(kernel.fn) or "?", first + offset, lines[offset].strip())


def function_text(name: str, source: str) -> str:
    """The text of function `name` in a module's text, without decorators, as Triton's `JITFunction.src` has it."""
    lines = source.splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line.startswith(f"def {name}("))
    return "".join(inspect.getblock(lines[first:]))


def operators_of(schedule: Sequence[Any]) -> tuple[str, ...]:
    """The operators that the scheduler's nodes `schedule` were made of, each once, in the graph's order."""
    return tuple(dict.fromkeys(operator for node in _graph_nodes(schedule) if (operator := _operator(node))))


def lines_of(schedule: Sequence[Any]) -> tuple[Line, ...]:
    """The user's source lines that led to the scheduler's nodes `schedule`, each once, in the graph's order."""
    return _lines(_graph_nodes(schedule))


def lines_of_call(node: Any) -> tuple[Line, ...]:
    """The user's source lines that led to a call of an operator, Inductor's ExternKernel `node`."""
    return _lines(_in_order(node.origins))


def _lines(nodes: Sequence[Any]) -> tuple[Line, ...]:
    traces = dict.fromkeys(node.meta.get("stack_trace") or "" for node in nodes)
    return tuple(dict.fromkeys(line for trace in traces if (line := _user_line(trace))))


def _graph_nodes(schedule: Sequence[Any]) -> list[Any]:
    """The FX nodes that the loops of `schedule` were made of, in the order of their graph."""
    loops = [node for entry in schedule if hasattr(entry, "get_nodes") for node in entry.get_nodes()]
    return _in_order(dict.fromkeys(origin for loop in loops if loop.node is not None for origin in loop.node.origins))


def _in_order(origins: Iterable[Any]) -> list[Any]:
    """Those of the FX nodes `origins` that call something, in the order of their graph."""
    calls = [origin for origin in origins if origin.op == "call_function"]
    order = {
        node: place for graph in dict.fromkeys(call.graph for call in calls) for place, node in enumerate(graph.nodes)
    }
    return sorted(calls, key=order.__getitem__)


def _operator(node: Any) -> str | None:
    """The operator that the user's program called, before decomposition: `aten.gelu`. None for torch.cond, for the
    launch of a kernel that a user wrote, and the like: a generated kernel can only make their arguments and results.
    """
    import torch

    operator = node.meta.get("original_aten") or node.target
    operator = getattr(operator, "overloadpacket", operator)
    if hasattr(operator, "_qualified_op_name"):
        return str(operator)
    name = getattr(operator, "__name__", None)
    return None if isinstance(operator, torch._ops.HigherOrderOperator) and name not in _COMPUTING else name


@functools.lru_cache(maxsize=1024)  # the nodes of one operator share a trace, as do those of its backward
def _user_line(trace: str) -> Line | None:
    """The innermost line outside of torch in the text of a stack trace."""
    frames = list(_FRAME.finditer(trace))
    outside = [frame for frame in frames if not _is_in_torch(frame["file"])] or frames
    if not outside:
        return None
    return Line(outside[-1]["file"], int(outside[-1]["line"]), outside[-1]["text"].strip())


@functools.lru_cache(maxsize=1024)
def _is_in_torch(file: str) -> bool:
    import torch

    return Path(file).is_relative_to(Path(torch.__file__).parent)

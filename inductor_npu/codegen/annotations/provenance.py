"""Records the origin of each generated kernel: ATen operators and the user's source lines.

Inductor knows the origin of a kernel while it generates the kernel, and then keeps it only as a comment. `record` keeps
it in a dictionary, keyed by the text of the `@triton.jit` function: that text is available when the kernel runs. A
graph from Inductor's compile cache is not generated again, so its kernels have no entry.
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
_COMPUTING = ("associative_scan", "flex_attention", "flex_attention_backward")


@dataclass(frozen=True)
class Line:
    """One line of the user's source."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Provenance:
    """The origin of one kernel: its operators (`aten.gelu`) and source lines, each once, in the order of the graph.

    `failure` says why the kernel does not compile and its operators run in eager; None for a kernel that compiles.
    """

    operators: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    failure: str | None = None


_remembered: dict[str, Provenance] | None = None


@contextlib.contextmanager
def record() -> Iterator[dict[str, Provenance]]:
    """Context in which the origin of each generated kernel is recorded, keyed by the kernel's `function_text`.

    Raises RuntimeError if another record is active.
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
    """Records the origin of the kernel `name` in the module text `source`; does nothing outside of `record`.

    `schedule` are the scheduler's nodes of the kernel, `failure` the error of its compilation, if there was one.
    """
    if _remembered is None:
        return
    reason = None if failure is None else f"{type(failure).__name__}: {failure}"
    _remembered[function_text(name, source)] = Provenance(operators_of(schedule), lines_of(schedule), reason)


def remember_user_kernel(kernel: Any) -> None:
    """Records the origin of a user-written Triton kernel that a compiled graph launches; does nothing outside of
    `record`. Call it before Inductor copies the kernel into a module of its own.
    """
    if _remembered is not None:
        _remembered[kernel.src] = Provenance(lines=(definition(kernel),))


def definition(kernel: Any) -> Line:
    """Returns the source line of the `def` of a JITFunction."""
    lines, first = inspect.getsourcelines(kernel.fn)
    offset = next(index for index, line in enumerate(lines) if line.lstrip().startswith("def "))
    return Line(inspect.getsourcefile(kernel.fn) or "?", first + offset, lines[offset].strip())


def function_text(name: str, source: str) -> str:
    """Returns the text of function `name` in the module text `source`, without decorators (`JITFunction.src`)."""
    lines = source.splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line.startswith(f"def {name}("))
    return "".join(inspect.getblock(lines[first:]))


def operators_of(schedule: Sequence[Any]) -> tuple[str, ...]:
    """Returns the operators that were lowered to the scheduler's nodes `schedule`, each once, in graph order."""
    return tuple(dict.fromkeys(operator for node in _graph_nodes(schedule) if (operator := _operator(node))))


def lines_of(schedule: Sequence[Any]) -> tuple[Line, ...]:
    """Returns the user's source lines behind the scheduler's nodes `schedule`, each once, in graph order."""
    return lines_of_nodes(_graph_nodes(schedule))


def lines_of_call(node: Any) -> tuple[Line, ...]:
    """Returns the user's source lines behind the operator call of Inductor's ExternKernel `node`."""
    return lines_of_nodes(_in_order(node.origins))


def lines_of_nodes(nodes: Sequence[Any]) -> tuple[Line, ...]:
    """Returns the user's source lines behind the FX nodes `nodes`, each once."""
    traces = dict.fromkeys(node.meta.get("stack_trace") or "" for node in nodes)
    return tuple(dict.fromkeys(line for trace in traces if (line := _user_line(trace))))


def _graph_nodes(schedule: Sequence[Any]) -> list[Any]:
    """The FX nodes that were lowered to `schedule`, in graph order."""
    loops = [node for entry in schedule if hasattr(entry, "get_nodes") for node in entry.get_nodes()]
    return _in_order(dict.fromkeys(origin for loop in loops if loop.node is not None for origin in loop.node.origins))


def _in_order(origins: Iterable[Any]) -> list[Any]:
    """The call nodes among the FX nodes `origins`, in graph order."""
    calls = [origin for origin in origins if origin.op == "call_function"]
    order = {
        node: place for graph in dict.fromkeys(call.graph for call in calls) for place, node in enumerate(graph.nodes)
    }
    return sorted(calls, key=order.__getitem__)


def _operator(node: Any) -> str | None:
    """The operator that the user's program called, before decomposition: `aten.gelu`. None for torch.cond, for launches
    of user-written kernels and the like: a generated kernel computes only their arguments and results.
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
    """The innermost frame outside torch in the text of a stack trace."""
    frames = list(_FRAME.finditer(trace))
    outside = [frame for frame in frames if not _is_in_torch(frame["file"])] or frames
    if not outside:
        return None
    return Line(outside[-1]["file"], int(outside[-1]["line"]), outside[-1]["text"].strip())


@functools.lru_cache(maxsize=1024)
def _is_in_torch(file: str) -> bool:
    import torch

    return Path(file).is_relative_to(Path(torch.__file__).parent)

"""Launches of kernels that were compiled with checks: waits for each launch, and raises the fault found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import MemoryFaultError, OutOfBoundsError, RaceError, UnwrittenReadError
from ...triton_npu.launcher import run_time_arguments
from .codegen.emit.checks import Access
from .errors import excerpt
from .observer import GRID_AXES
from .ttir.ir import SourceLine

# Positions in a launcher's arguments.
_STREAM, _FUNCTION = 3, 4

_PRESENT = {"load": "loads", "store": "stores", "atomic": "updates"}
AccessRecord = tuple[str, int | None, tuple[str, int, int] | None]


def access_records(accesses: Sequence[Access]) -> list[AccessRecord]:
    """Accesses as they are stored in a kernel's metadata: kind, argument, (file, line, column)."""
    return [
        (a.kind, a.argument, None if a.line is None else (a.line.file, a.line.line, a.line.column)) for a in accesses
    ]


def checked(launcher: Callable[..., None], source: Any, metadata: Any) -> Callable[..., None]:
    """`launcher`, which waits for the launch and raises a MemoryFaultError for the first fault that it had."""
    from ...device.npu.runtime import extension

    names = run_time_arguments(source)

    def launch_checked(*args: Any) -> None:
        launcher(*args)
        finding = extension().take_finding(args[_STREAM], args[_FUNCTION])
        if finding is not None:
            raise _error(finding, metadata, names, args[:GRID_AXES])

    return launch_checked


def _error(finding: dict[str, Any], metadata: Any, names: Sequence[str], grid: Sequence[int]) -> MemoryFaultError:
    kind, position, line = metadata.accesses[finding["access"]]
    base = finding["argument"]
    allocation: tuple[int, int] | None = finding["allocation"]
    begin = base or (allocation[0] if allocation is not None else 0)
    fields = {
        "kernel": metadata.name,
        "operators": f" ({metadata.operators})" if metadata.operators else "",
        "program": _program(finding["program"], grid),
        "access": _PRESENT[kind],
        "bytes": finding["bytes"],
        "offset": finding["address"] - begin,
        "argument": _argument(position, names, allocation),
        "where": excerpt(None if line is None else SourceLine(*line)),
    }
    if finding["fault"] == "outside":
        return OutOfBoundsError(room=_room(base, allocation), **fields)
    if finding["fault"] == "unwritten":
        return UnwrittenReadError(**fields)
    other = finding["other_program"]
    return RaceError(
        other="another program" if other < 0 else f"program {_program(other, grid)}",
        other_access="stored to" if finding["other_wrote"] else "read",
        **fields,
    )


def _program(number: int, grid: Sequence[int]) -> str:
    x, y, _ = grid
    return f"({number % x}, {number // x % y}, {number // x // y})"


def _argument(position: int | None, names: Sequence[str], allocation: tuple[int, int] | None) -> str:
    if position is not None:
        return f"argument {names[position]}" if position < len(names) else f"argument number {position}"
    # An address from memory, or one of several arguments.
    return "a tensor that is no single argument" if allocation is not None else "the address space"


def _room(base: int, allocation: tuple[int, int] | None) -> str:
    if allocation is None:
        return "where no tensor is (it may have been freed)"
    begin, end = allocation
    before = base - begin if base else 0
    behind = end - base if base else end - begin
    return f"whose storage has {behind} bytes from there on" + (f" and {before} before" if before else "")


__all__ = ["access_records", "checked"]

"""The checked variant of a kernel announces each access to device memory before it happens.

Each load, store and atomic calls `npu_check_access` (csrc/memory_check.h) with the addresses of its lanes. The variant
is off by default; ordinary kernels have no trace of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ttir.ir import Op, SourceLine, Value
from ..analysis.aliases import AliasAnalysis
from ..forms.lane import Lane, Uniform, is_uniform
from ..forms.types import element_bytes
from ..forms.value import Val
from .builder import Builder
from .lanes import Lanes

FUNCTION = "npu_check_access"
_KINDS = {"tt.load": 0, "tt.store": 1}
_ATOMIC = 2
_UNORDERED = 8
_NAMES = ("load", "store", "atomic")


@dataclass(frozen=True)
class Access:
    """One access in a kernel's code: load, store or atomic; through which of the kernel's run-time arguments, counted
    from 0, None where that is not known; the user's source line.
    """

    kind: str
    argument: int | None
    line: SourceLine | None


class Checks:
    """Writes the calls of one kernel; `accesses` are those that it has, by the number that the call passes.

    `arguments` has the values of the kernel's run-time arguments, in their order. `ordered` says that programs may wait
    for each other, through what atomics return: then two of them may touch the same memory one after the other.
    """

    def __init__(
        self, builder: Builder, lanes: Lanes, aliases: AliasAnalysis, arguments: Mapping[Value, Val], ordered: bool
    ) -> None:
        self.b, self.lanes, self.aliases, self.arguments = builder, lanes, aliases, arguments
        self.order = 0 if ordered else _UNORDERED
        self.accesses: list[Access] = []
        self._positions = {argument: position for position, argument in enumerate(arguments)}
        self._numbers: dict[int, int] = {}
        self._most_lanes = 1

    def access(self, op: Op, pointer: Lane, mask: Lane | None, element: str, width: int, level: int) -> None:
        """Says that `op` touches the elements at `pointer` where `mask` is on. A pointer and a mask that are the same
        in all lanes are one access.
        """
        one = is_uniform(pointer) and (mask is None or isinstance(mask, Uniform))
        width = 0 if one else width
        addresses = self.lanes.vector(pointer, width) if width else self.lanes.scalar(pointer)
        self._most_lanes = max(self._most_lanes, width)
        lines = [self._store(self.b.cast("ptrtoint", addresses, "i64"), "%checked.addresses")]
        active = "null"
        if mask is not None:
            active = "%checked.active"
            on = self.lanes.vector(mask, width) if width else self.lanes.scalar(mask)
            lines.append(self._store(self.b.cast("zext", on, "i8"), active))
        kind = _KINDS.get(op.name, _ATOMIC)
        base, position = self._base(op.operands[0])
        number = self._number(op, kind, position)
        arguments = (
            f"i64 %number, i32 {number}, i32 {kind | self.order}, i32 {element_bytes(element)}, ptr {base}, "
            f"ptr %checked.addresses, ptr {active}, i32 {max(width, 1)}"
        )
        lines.append(f"call void @{FUNCTION}({arguments})")
        self.b.sinks[level] += [f"  {line}" for line in lines]
        self.b.declare(f"declare void @{FUNCTION}(i64, i32, i32, i32, ptr, ptr, ptr, i32)")

    def definitions(self) -> list[str]:
        """Where the calls pass addresses and masks, for the kernel's begin."""
        return [
            f"  %checked.addresses = alloca [{self._most_lanes} x i64], align 64",
            f"  %checked.active = alloca [{self._most_lanes} x i8], align 64",
        ]

    def _store(self, value: Val, place: str) -> str:
        return f"store {value}, ptr {place}, align 8"

    def _base(self, pointer: Value) -> tuple[str, int | None]:
        """The argument that a pointer is derived from, as an operand and by its position; null where it may be one of
        several.
        """
        arguments = self.aliases.of(pointer)
        if arguments is None or len(arguments) != 1:
            return "null", None
        (argument,) = arguments
        return self.arguments[argument].text, self._positions[argument]

    def _number(self, op: Op, kind: int, argument: int | None) -> int:
        number = self._numbers.setdefault(id(op), len(self.accesses))
        if number == len(self.accesses):
            self.accesses.append(Access(_NAMES[kind], argument, op.line))
        return number

"""The final HIVM IR as plain data: functions, regions, operations, memrefs, source lines.

Only what analyses need of the IR is modelled; the remaining text of an operation is in `Operation.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

# Bits of an element; i1 tiles are packed.
ELEMENT_BITS = {
    "i1": 1,
    "i8": 8,
    "ui8": 8,
    "si8": 8,
    "i16": 16,
    "ui16": 16,
    "i32": 32,
    "ui32": 32,
    "i64": 64,
    "ui64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "index": 64,
}


@dataclass(frozen=True, slots=True)
class MemRefType:
    """`memref<shape x element, strided<strides, offset>, space>`. None stands for `?`. Strides and offset count
    elements.

    `space` is gm (device memory), ub (Unified Buffer), cbuf (L1), ca, cb, cc (L0A, L0B, L0C), or "" where none is
    given.
    """

    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    offset: int | None
    element: str
    space: str

    @property
    def element_bits(self) -> int:
        return ELEMENT_BITS[self.element]

    @property
    def bytes(self) -> int | None:
        """Bytes of the elements, packed to whole bytes; None where the shape is not static."""
        if any(size is None for size in self.shape):
            return None
        return -(-prod(size or 0 for size in self.shape) * self.element_bits // 8)


Type = MemRefType | str  # every type but a memref is its own text


@dataclass(frozen=True, slots=True)
class Location:
    """A line of Python source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass(slots=True, eq=False)
class Value:
    """What an operation or a block argument defines."""

    name: str
    type: Type
    owner: Operation | None = None


# An operand that is a number in the text and a value elsewhere: `subview %x[0, %i]`.
Index = int | Value


@dataclass(slots=True, eq=False)
class Operation:
    """One operation.

    `name` is the dialect's (`arith.addi`, `func.call`); `operands` are the values used, in the order of the text,
    except for what `attributes` holds for the operations the parser knows (see parser.py).
    """

    name: str
    operands: list[Value]
    results: list[Value]
    line: int  # of the text, from 1
    text: str
    attributes: dict[str, object] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    location: Location | None = None

    def walk(self) -> Iterator[Operation]:
        """This operation and all operations inside it, in the order of the text."""
        yield self
        for region in self.regions:
            yield from region.walk()


@dataclass(slots=True, eq=False)
class Region:
    """One block of operations and its arguments; the IR that the compiler prints has no others."""

    arguments: list[Value]
    operations: list[Operation]

    def walk(self) -> Iterator[Operation]:
        for operation in self.operations:
            yield from operation.walk()


@dataclass(slots=True, eq=False)
class Function:
    """A device function. `core` is AIV (vector core) or AIC (cube core); `entry` marks what a launch starts."""

    name: str
    arguments: list[Value]
    argument_kinds: list[str]  # "ffts_base_address", "sync_block_lock", "workspace", or "" for the kernel's own
    body: Region
    core: str
    entry: bool
    location: Location | None = None


@dataclass(slots=True, eq=False)
class Module:
    """The device functions of a module and the chip it was compiled for, as the compiler printed it."""

    functions: list[Function]
    target: dict[str, int]


AffineMap = Callable[..., tuple[int, ...]]  # dimensions, then symbols -> results

"""The TTIR that the code generator reads: plain data, one class per notion of MLIR.

A module is parsed from the text that any Triton from 3.2 on prints (`parser.py`), so nothing here depends on Triton's
Python bindings or on their version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number. `name` is MLIR's: i1, i8, i16, i32, i64, index (held as i64), f16, bf16, f32, f64, f8E4M3FN, f8E5M2,
    ...
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer into device memory (`!tt.ptr<pointee>`); `pointee` is a TensorType for a block pointer."""

    pointee: Type

    def __str__(self) -> str:
        return f"!tt.ptr<{self.pointee}>"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tile: `shape` in elements, row-major; `element` is a ScalarType or a PointerType."""

    shape: tuple[int, ...]
    element: Type

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorDescType:
    """A tensor descriptor (`!tt.tensordesc<tensor<..>>`)."""

    block: TensorType

    def __str__(self) -> str:
        return f"!tt.tensordesc<{self.block}>"


Type = Union[ScalarType, PointerType, TensorType, TensorDescType]  # noqa: UP007  # the names are strings in the classes above


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where the user wrote an operation, of a chain of calls the outermost line. Lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(eq=False, slots=True)
class Value:
    """An SSA value; compared by identity. `owner` is the operation that makes it, None for a block argument."""

    name: str
    type: Type
    owner: Op | None = None
    index: int = 0

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(eq=False, slots=True)
class Op:
    """One operation, e.g. `arith.addf`.

    `attrs` holds Python values: int, float, bool, str (also for enum keywords: a comparison's "predicate", an atomic's
    "rmw_op", a program id's "axis" as int 0..2), lists of those, `Dense` for a tensor constant, Type for a type. The
    parser's docstring lists the names for each operation; where MLIR itself names the attribute, that name is used.
    """

    name: str
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    line: SourceLine | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True)
class Dense:
    """The value of a tensor constant: a single number when it is a splat, else all elements in row-major order."""

    values: int | float | bool | tuple[int | float | bool, ...]

    @property
    def is_splat(self) -> bool:
        return not isinstance(self.values, tuple)


def splat_number(value: Value, through: Collection[str] = ("tt.splat", "tt.broadcast")) -> int | float | bool | None:
    """The number that all elements of `value` are, if it is a constant, seen through operations called `through`."""
    op = value.owner
    while op is not None and op.name in through:
        op = op.operands[0].owner
    if op is None or op.name != "arith.constant":
        return None
    number = op.attrs["value"]
    if isinstance(number, Dense):
        number = number.values
    return number if isinstance(number, (int, float)) else None


@dataclass(eq=False, slots=True)
class Block:
    """Straight-line operations. TTIR at this stage has one block per region; the parser refuses `cf` branches."""

    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    def walk(self) -> Iterator[Op]:
        """Every operation in program order, those inside regions after the operation that holds them."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass(eq=False, slots=True)
class Function:
    """`tt.func`: `argument_attrs[i]` holds the attributes of parameter i, such as {"tt.divisibility": 16}."""

    name: str
    body: Block
    result_types: list[Type] = field(default_factory=list)
    argument_attrs: list[dict[str, object]] = field(default_factory=list)
    public: bool = True
    line: SourceLine | None = None


@dataclass(eq=False, slots=True)
class Module:
    functions: dict[str, Function]

    @property
    def kernel(self) -> Function:
        """The one public function: the kernel."""
        (kernel,) = [function for function in self.functions.values() if function.public]
        return kernel

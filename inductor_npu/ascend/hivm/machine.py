"""What the scalar core of an AI core computes: integers, loop bounds, and views of buffers.

Values are Python integers and Buffers. None is an unknown value: it depends on data, on an argument that was not given,
or on the program. Whatever depends on an unknown value is unknown; nothing is guessed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from .ir import ELEMENT_BITS, Index, MemRefType, Operation, Value
from .types import contiguous_strides


@dataclass(frozen=True, slots=True)
class Buffer:
    """A view of memory. Sizes, strides and offset are in elements; None where unknown.

    `root` says what is viewed: the index of the function's argument, or -1 for a buffer of the core's own. `limit`
    bounds `shape`: a tile's size where the size of what is left of it is unknown. `address` is the buffer's first byte
    in its memory of the core.
    """

    root: int
    space: str
    element: str
    shape: tuple[int | None, ...]
    limit: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    offset: int | None
    address: int | None

    @property
    def element_bits(self) -> int:
        return ELEMENT_BITS[self.element]

    @property
    def elements(self) -> int | None:
        """How many elements the view holds; its tile's number where the view's own size is unknown."""
        sizes = [size if size is not None else limit for size, limit in zip(self.shape, self.limit)]
        return None if any(size is None for size in sizes) else prod(size or 0 for size in sizes)

    @property
    def exact(self) -> bool:
        return all(size is not None for size in self.shape)

    @property
    def byte_offset(self) -> int | None:
        """Where the view begins in its memory of the core, in bytes."""
        if self.address is None or self.offset is None:
            return None
        return self.address + self.offset * self.element_bits // 8


Scalar = int | float | None
Known = Scalar | Buffer
Environment = dict[Value, Known]


def of_type(memref: MemRefType, root: int, address: int | None = None) -> Buffer:
    """The buffer that only its type is known of."""
    return Buffer(
        root, memref.space, memref.element, memref.shape, memref.shape, memref.strides, memref.offset, address
    )


def number(environment: Environment, index: Index) -> int | None:
    """What an index is worth: an integer, or None."""
    if isinstance(index, int):
        return index
    known = environment.get(index)
    return known if isinstance(known, int) else None


def execute(operation: Operation, environment: Environment) -> None:
    """Puts the results of an operation without regions into `environment`; unknown where the operation is not
    understood.
    """
    evaluate = _EVALUATORS.get(operation.name)
    if evaluate is not None:
        evaluate(operation, environment)
        return
    for result in operation.results:
        environment[result] = of_type(result.type, -1) if isinstance(result.type, MemRefType) else None


def is_understood(operation: Operation) -> bool:
    """Whether `execute` knows the operation, or knows that its results are numbers that it does not follow (floats)."""
    return operation.name in _EVALUATORS or operation.name in _UNKNOWN_SCALARS or operation.name.startswith("math.")


def bits_of(type_text: object) -> int:
    """The width of an integer type; 64 for `index`."""
    return int(type_text[1:]) if isinstance(type_text, str) and type_text[:1] == "i" and type_text[1:].isdigit() else 64


# ---- integers ----


def _divide(a: int, b: int) -> int | None:
    """Division that truncates toward zero, as the hardware's."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int | None:
    quotient = _divide(a, b)
    return None if quotient is None else a - b * quotient


def _unsigned(function: Callable[[int, int], int | None]) -> Callable[[int, int, int], int | None]:
    return lambda a, b, bits: function(a & ((1 << bits) - 1), b & ((1 << bits) - 1))


_INTEGER: dict[str, Callable[[int, int], int | None]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _divide,
    "arith.remsi": _remainder,
    "arith.floordivsi": lambda a, b: a // b if b else None,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else None,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": lambda a, b: a << b,
    "arith.shrsi": lambda a, b: a >> b,
}
_UNSIGNED: dict[str, Callable[[int, int, int], int | None]] = {
    "arith.divui": _unsigned(lambda a, b: a // b if b else None),
    "arith.remui": _unsigned(lambda a, b: a % b if b else None),
    "arith.minui": _unsigned(min),
    "arith.maxui": _unsigned(max),
    "arith.shrui": _unsigned(lambda a, b: a >> b),
    "arith.ceildivui": _unsigned(lambda a, b: -(-a // b) if b else None),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
}
# Of these the results are followed no further: numbers of the data's own kind.
_UNKNOWN_SCALARS = {
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.negf", "arith.cmpf", "arith.maxnumf",
    "arith.minnumf", "arith.maximumf", "arith.minimumf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui",
    "arith.extf", "arith.truncf", "arith.bitcast", "arith.mulsi_extended", "arith.mului_extended",
    "arith.addui_extended", "memref.load",
}  # fmt: skip


def _integer(operation: Operation, environment: Environment) -> None:
    a, b = (environment.get(value) for value in operation.operands)
    result = None
    if isinstance(a, int) and isinstance(b, int):
        result = _INTEGER[operation.name](a, b)
    elif operation.name in ("arith.muli", "arith.andi") and (a == 0 or b == 0):
        result = 0
    environment[operation.results[0]] = result


def _unsigned_integer(operation: Operation, environment: Environment) -> None:
    a, b = (environment.get(value) for value in operation.operands)
    known = isinstance(a, int) and isinstance(b, int)
    bits = bits_of(operation.results[0].type)
    environment[operation.results[0]] = _UNSIGNED[operation.name](int(a), int(b), bits) if known else None  # type: ignore[arg-type]


def _constant(operation: Operation, environment: Environment) -> None:
    value = operation.attributes["value"]
    environment[operation.results[0]] = (
        int(value) if isinstance(value, bool) else value if isinstance(value, (int, float)) else None
    )


def _compare(operation: Operation, environment: Environment) -> None:
    a, b = (environment.get(value) for value in operation.operands)
    predicate = str(operation.attributes["predicate"])
    if not isinstance(a, int) or not isinstance(b, int):
        environment[operation.results[0]] = None
        return
    if predicate.startswith("u"):
        mask = (1 << bits_of(operation.operands[0].type)) - 1
        a, b = a & mask, b & mask
    environment[operation.results[0]] = int(_COMPARE[predicate](a, b))


def _cast(operation: Operation, environment: Environment) -> None:
    """Casts between integers: index_cast, extsi, extui, trunci."""
    value = environment.get(operation.operands[0])
    if isinstance(value, int):
        bits = bits_of(operation.results[0].type)
        if operation.name in ("arith.extui", "arith.index_castui"):
            value &= (1 << bits_of(operation.operands[0].type)) - 1
        elif bits == 1:
            value &= 1
        elif bits < 64:
            value = ((value + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))
    environment[operation.results[0]] = value


def _affine(operation: Operation, environment: Environment) -> None:
    arguments = [environment.get(value) for value in operation.operands]
    result = None
    if all(isinstance(argument, int) for argument in arguments):
        try:
            results = operation.attributes["map"](*arguments)  # type: ignore[operator]
        except ZeroDivisionError:
            results = (None,)
        result = {"affine.min": min, "affine.max": max}.get(operation.name, lambda values: values[0])(results)
    environment[operation.results[0]] = result


def _select(operation: Operation, environment: Environment) -> None:
    condition, yes, no = (environment.get(value) for value in operation.operands)
    if isinstance(condition, int):
        result = yes if condition else no
    elif isinstance(yes, Buffer) and isinstance(no, Buffer):
        result = merge(yes, no)
    else:
        result = yes if yes == no else None
    environment[operation.results[0]] = result


def merge(a: Buffer, b: Buffer) -> Buffer:
    """What is known of a buffer that is one of two: the halves of a double buffer, say, which count as the first of
    them.
    """
    same = a.root == b.root
    return replace(
        a,
        root=a.root if same else -1,
        shape=tuple(x if x == y else None for x, y in zip(a.shape, b.shape)),
        limit=tuple(None if x is None or y is None else max(x, y) for x, y in zip(a.limit, b.limit)),
        strides=tuple(x if x == y else None for x, y in zip(a.strides, b.strides)),
        offset=a.offset if a.offset == b.offset else None,
    )


# ---- buffers ----


def _source(operation: Operation, environment: Environment) -> Buffer:
    known = environment.get(operation.operands[0])
    if isinstance(known, Buffer):
        return known
    source = operation.operands[0].type
    if not isinstance(source, MemRefType):
        raise TypeError(f"line {operation.line}: {operation.name} of {source}")
    return of_type(source, -1)


def _list(operation: Operation, name: str, environment: Environment) -> list[int | None]:
    return [number(environment, index) for index in operation.attributes[name]]  # type: ignore[attr-defined]


def _subview(operation: Operation, environment: Environment) -> None:
    source = _source(operation, environment)
    offsets, sizes, steps = (_list(operation, name, environment) for name in ("offsets", "sizes", "strides"))
    offset = source.offset
    strides: list[int | None] = []
    for axis, stride in enumerate(source.strides):
        begin, step = offsets[axis], steps[axis]
        if begin != 0:
            offset = None if offset is None or begin is None or stride is None else offset + begin * stride
        strides.append(stride if step == 1 else None if step is None or stride is None else stride * step)
    limit = [size if size is not None else bound for size, bound in zip(sizes, source.limit)]
    result = operation.results[0].type
    axes = list(range(len(sizes)))
    if isinstance(result, MemRefType):
        written = operation.attributes["sizes"]
        for axis in reversed(list(axes)):  # axes of size 1 that the result's type leaves out
            if len(axes) > len(result.shape) and written[axis] == 1:  # type: ignore[index]
                axes.remove(axis)
    environment[operation.results[0]] = replace(
        source,
        shape=tuple(sizes[axis] for axis in axes),
        limit=tuple(limit[axis] for axis in axes),
        strides=tuple(strides[axis] for axis in axes),
        offset=offset,
    )


def _reinterpret(operation: Operation, environment: Environment) -> None:
    source = _source(operation, environment)
    sizes = tuple(_list(operation, "sizes", environment))
    environment[operation.results[0]] = replace(
        source,
        shape=sizes,
        limit=sizes,
        strides=tuple(_list(operation, "strides", environment)),
        offset=_list(operation, "offsets", environment)[0],
    )


def _collapse(operation: Operation, environment: Environment) -> None:
    source = _source(operation, environment)
    shape, limit, strides = [], [], []
    for group in operation.attributes["groups"]:  # type: ignore[attr-defined]
        shape.append(_product(source.shape[axis] for axis in group))
        limit.append(_product(source.limit[axis] for axis in group))
        wide = [axis for axis in group if source.limit[axis] != 1] or group[-1:]
        strides.append(source.strides[wide[-1]])
    environment[operation.results[0]] = replace(source, shape=tuple(shape), limit=tuple(limit), strides=tuple(strides))


def _expand(operation: Operation, environment: Environment) -> None:
    source = _source(operation, environment)
    sizes = _list(operation, "sizes", environment)
    strides: list[int | None] = [None] * len(sizes)
    for group, stride in zip(operation.attributes["groups"], source.strides):  # type: ignore[call-overload]
        for axis in reversed(group):
            strides[axis] = stride
            size = sizes[axis]
            stride = None if stride is None or size is None else stride * size
    environment[operation.results[0]] = replace(source, shape=tuple(sizes), limit=tuple(sizes), strides=tuple(strides))


def _view(operation: Operation, environment: Environment) -> None:
    """memref.view: bytes as elements of another type, from an offset in bytes."""
    source, result = _source(operation, environment), operation.results[0].type
    assert isinstance(result, MemRefType)
    offset = (number(environment, operation.attributes["offset"][0]),)[0]  # type: ignore[index]
    sizes = iter(_list(operation, "sizes", environment))
    shape = tuple(size if size is not None else next(sizes, None) for size in result.shape)
    begin = None if offset is None or source.offset is None else (source.offset + offset) * 8 // result.element_bits
    environment[operation.results[0]] = replace(
        source, element=result.element, shape=shape, limit=shape, strides=contiguous_strides(shape), offset=begin
    )


def _same_buffer(operation: Operation, environment: Environment) -> None:
    """memref.cast forgets what its result's type does not say; the buffer stays what it is."""
    environment[operation.results[0]] = _source(operation, environment)


def _bitcast(operation: Operation, environment: Environment) -> None:
    source, result = _source(operation, environment), operation.results[0].type
    assert isinstance(result, MemRefType)
    environment[operation.results[0]] = replace(source, element=result.element)


def _pointer_cast(operation: Operation, environment: Environment) -> None:
    result = operation.results[0].type
    assert isinstance(result, MemRefType)
    sizes = iter(_list(operation, "sizes", environment))
    shape = tuple(size if size is not None else next(sizes, None) for size in result.shape)
    address = number(environment, operation.attributes["addresses"][0])  # type: ignore[index]
    strides = contiguous_strides(shape) if None in result.strides else result.strides
    environment[operation.results[0]] = Buffer(
        -1, result.space, result.element, shape, shape, strides, result.offset, address
    )


def _metadata(operation: Operation, environment: Environment) -> None:
    """memref.extract_strided_metadata: base, offset, sizes, strides."""
    source = _source(operation, environment)
    base, *numbers = operation.results
    environment[base] = replace(source, shape=(), limit=(), strides=(), offset=0)
    environment.update(zip(numbers, (source.offset, *source.shape, *source.strides)))


def _dimension(operation: Operation, environment: Environment) -> None:
    source = _source(operation, environment)
    axis = number(environment, operation.operands[1]) if len(operation.operands) > 1 else None
    environment[operation.results[0]] = None if axis is None else source.shape[axis]


def _product(sizes: object) -> int | None:
    total = 1
    for size in sizes:  # type: ignore[attr-defined]
        if size is None:
            return None
        total *= size
    return total


_EVALUATORS: dict[str, Callable[[Operation, Environment], None]] = {
    **dict.fromkeys(_INTEGER, _integer),
    **dict.fromkeys(_UNSIGNED, _unsigned_integer),
    **dict.fromkeys(("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"), _cast),
    **dict.fromkeys(("affine.apply", "affine.min", "affine.max"), _affine),
    "arith.constant": _constant,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret,
    "memref.collapse_shape": _collapse,
    "memref.expand_shape": _expand,
    "memref.view": _view,
    "memref.cast": _same_buffer,
    "memref.memory_space_cast": _same_buffer,
    "hivm.hir.bitcast": _bitcast,
    "hivm.hir.pointer_cast": _pointer_cast,
    "memref.extract_strided_metadata": _metadata,
    "memref.dim": _dimension,
}

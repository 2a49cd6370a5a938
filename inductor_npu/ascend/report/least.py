"""The least traffic of a launch: each element of device memory that it reads, and each that it writes, once.

The integer part of the kernel's TTIR (indices, masks, loops) is executed with numpy for each program of the grid, and
every element that a load or a store reaches is marked. An address that depends on loaded data is unknown: then tensors
count as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inductor_npu.ascend.kernel import Launch, TensorArgument
from inductor_npu.simulator.triton_backend.ttir import parser
from inductor_npu.simulator.triton_backend.ttir.ir import Block, Dense, Op, PointerType, ScalarType, TensorType, Value
from inductor_npu.simulator.triton_backend.ttir.passes import simplify

MOST_ITERATIONS = 1 << 14  # of all loops together, before it is given up

# Bytes of an element, by the names of torch's dtypes; all others end in their bits.
_ITEM_BYTES = {
    "bool": 1,
    "bfloat16": 2,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}


@dataclass(frozen=True)
class Repeat:
    """An argument whose elements are read, or written, `times` times on average: `bytes` more than once would take."""

    argument: str
    times: float
    bytes: int


@dataclass(frozen=True)
class LeastBytes:
    """`exact` is False where an address depends on data or too much would have to be executed; `repeats` and `runs`
    then are empty. Else `repeats` has what is accessed more than once, most bytes first, and `runs` for each argument
    the bytes of what lies side by side, on average.
    """

    read: int
    written: int
    exact: bool
    repeats: tuple[Repeat, ...] = ()
    runs: dict[str, float] = field(default_factory=dict)


def least_bytes(ttir: str, launch: Launch) -> LeastBytes:
    """What `launch` of the kernel `ttir` has to move. Raises ParseError for text that is no TTIR."""
    module = parser.parse(ttir)
    simplify(module)
    walk = _Walk(launch)
    try:
        walk.run(module.kernel.body)
    except _NotKnownError:
        return _of_whole_tensors(module.kernel.body, launch)
    names = list(launch.arguments)
    repeats = sorted([*walk.reads.repeats(names), *walk.writes.repeats(names)], key=lambda repeat: -repeat.bytes)
    runs = {**walk.reads.runs(names), **walk.writes.runs(names)}
    return LeastBytes(walk.reads.bytes(), walk.writes.bytes(), walk.exact, tuple(repeats), runs)


def item_bytes(dtype: str) -> int:
    """Bytes of one element of torch's dtype of that name."""
    if dtype in _ITEM_BYTES:
        return _ITEM_BYTES[dtype]
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


class _NotKnownError(Exception):
    """An address, or which loads and stores are executed, depends on data."""


@dataclass(frozen=True)
class _Pointer:
    """Addresses in the argument at `position`: `offset` in elements from where it starts, None if it is not known."""

    position: int
    offset: Any


class _Marks:
    """Elements of device memory, each once, however many arguments show them."""

    def __init__(self, arguments: list[Any]) -> None:
        self._arguments = arguments
        self._marked: dict[tuple[int, int], Any] = {}  # by storage and bytes of an element
        self._accesses: dict[int, int] = {}  # by argument

    def add(self, pointer: _Pointer, mask: Any) -> int:
        """Marks them, and counts; returns how many."""
        argument = self._arguments[pointer.position]
        size = item_bytes(argument.dtype)
        marked = self._marked.setdefault((argument.storage, size), np.zeros(argument.storage_bytes // size, dtype=bool))
        places = np.asarray(pointer.offset) + argument.offset
        if mask is not None:
            places, mask = np.broadcast_arrays(places, mask)
            places = places[mask]
        places = places[(places >= 0) & (places < len(marked))]
        self.count(pointer.position, places.size)
        marked[places] = True
        return int(places.size)

    def count(self, position: int, elements: int) -> None:
        self._accesses[position] = self._accesses.get(position, 0) + elements

    def add_all(self, position: int) -> None:
        """The elements that the tensor at `position` shows."""
        argument = self._arguments[position]
        places = np.array(0)
        for size, stride in zip(argument.shape, argument.strides, strict=True):
            places = places[..., None] + stride * np.arange(size if stride else min(size, 1))
        self.add(_Pointer(position, places), None)

    def repeats(self, names: list[str]) -> Iterator[Repeat]:
        """The arguments that are accessed more than once."""
        for position, count in self._accesses.items():
            argument = self._arguments[position]
            size = item_bytes(argument.dtype)
            distinct = int(self._marked[argument.storage, size].sum())
            if count > distinct:
                yield Repeat(names[position], round(count / distinct, 2), (count - distinct) * size)

    def runs(self, names: list[str]) -> dict[str, float]:
        """Bytes of what lies side by side in each argument's storage, on average over what is marked there."""
        found = {}
        for position in self._accesses:
            argument = self._arguments[position]
            size = item_bytes(argument.dtype)
            marked = self._marked[argument.storage, size]
            starts = int(marked[:1].sum()) + int((marked[1:] & ~marked[:-1]).sum())
            found[names[position]] = int(marked.sum()) * size / max(starts, 1)
        return found

    def bytes(self) -> int:
        return sum(int(marked.sum()) * size for (_, size), marked in self._marked.items())


@dataclass
class _Walk:
    """Executes a kernel's integers for each program."""

    launch: Launch
    exact: bool = True
    values: dict[Value, Any] = field(default_factory=dict)
    program: tuple[int, int, int] = (0, 0, 0)
    iterations: int = 0
    fixed: dict[Op, bool] = field(
        default_factory=dict
    )  # operations met before: the same in every program and iteration
    varying: set[Value] = field(default_factory=set)
    fixed_accesses: dict[Op, tuple[_Marks, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments = list(self.launch.arguments.values())
        self.reads, self.writes = _Marks(arguments), _Marks(arguments)

    def run(self, body: Block) -> None:
        for position, (value, argument) in enumerate(zip(body.arguments, self.launch.arguments.values(), strict=True)):
            self.values[value] = _Pointer(position, 0) if isinstance(argument, TensorArgument) else argument
        x, y, z = self.launch.grid
        for number in range(x * y * z):
            self.program = (number % x, number // x % y, number // (x * y))
            self._block(body)

    def _block(self, block: Block) -> list[Any]:
        for op in block.ops:
            if op.name in ("scf.yield", "scf.condition"):
                return [self.values.get(operand) for operand in op.operands]
            self._operation(op)
        return []

    def _operation(self, op: Op) -> None:
        if self.fixed.get(op):
            if op in self.fixed_accesses:
                marks, position, elements = self.fixed_accesses[op]
                marks.count(position, elements)
            return
        if op not in self.fixed:
            self.fixed[op] = self._is_fixed(op)
        operands = [self.values.get(operand) for operand in op.operands]
        if op.name == "scf.for":
            self._for(op, operands)
        elif op.name == "scf.if":
            self._if(op, operands[0])
        elif op.name == "scf.while":
            self._while(op, operands)
        elif op.name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
            self._access(op, operands)
        elif op.results and not op.regions and _is_integer(op.results[0]):
            self.values[op.results[0]] = self._integer(op, operands)

    def _is_fixed(self, op: Op) -> bool:
        varies = bool(op.regions) or op.name == "tt.get_program_id" or not self.varying.isdisjoint(op.operands)
        if varies:
            self.varying.update(op.results)
            self.varying.update(argument for region in op.regions for argument in region.arguments)
        return not varies

    def _access(self, op: Op, operands: list[Any]) -> None:
        mask_at = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(op.name)
        pointer = operands[0]
        if not isinstance(pointer, _Pointer) or pointer.offset is None:
            raise _NotKnownError
        has_mask = mask_at is not None and len(operands) > mask_at
        mask = operands[mask_at] if has_mask else None  # type: ignore[index]
        self.exact = self.exact and not (has_mask and mask is None)
        marks = self.reads if op.name == "tt.load" else self.writes
        elements = marks.add(pointer, mask)
        if self.fixed[op]:
            self.fixed_accesses[op] = (marks, pointer.position, elements)

    def _integer(self, op: Op, operands: list[Any]) -> Any:
        kind = op.results[0].type
        shape = kind.shape if isinstance(kind, TensorType) else ()
        name = op.name
        if name == "arith.constant":
            value = op.attrs["value"]
            value = value.values if isinstance(value, Dense) else value
            return np.reshape(np.asarray(value), shape) if isinstance(value, tuple) else np.full(shape, value)[()]
        if name == "tt.get_program_id":
            return self.program[op.attrs["axis"]]
        if name == "tt.get_num_programs":
            return self.launch.grid[op.attrs["axis"]]
        if name == "tt.make_range":
            return np.arange(op.attrs["start"], op.attrs["end"])
        if name == "arith.select" and any(isinstance(operand, _Pointer) for operand in operands):
            return None
        if isinstance(operands[0], _Pointer):
            offset = _moved(name, op, shape, operands[0].offset, operands[1:])
            return _Pointer(operands[0].position, offset)
        if any(operand is None for operand in operands):
            return None
        if name in _SHAPES:
            return _SHAPES[name](operands[0], op, shape)
        if name == "arith.trunci":
            return np.bitwise_and(operands[0], 1) != 0 if _is_boolean(kind) else operands[0]
        if name == "arith.cmpi":
            return _COMPARISONS[op.attrs["predicate"]](*operands)
        return _ARITHMETIC[name](*operands) if name in _ARITHMETIC else None

    def _for(self, op: Op, operands: list[Any]) -> None:
        lower, upper, step, *carried = operands
        if lower is None or upper is None or step is None:
            raise _NotKnownError
        variable, *arguments = op.regions[0].arguments
        for index in range(int(lower), int(upper), int(step)):
            self.iterations += 1
            if self.iterations > MOST_ITERATIONS:
                raise _NotKnownError
            self.values[variable] = index
            self.values.update(zip(arguments, carried))
            carried = self._block(op.regions[0])
        self.values.update(zip(op.results, carried))

    def _if(self, op: Op, condition: Any) -> None:
        if condition is None:
            self.exact = False
            for region in op.regions:
                self._block(region)
            self.values.update(dict.fromkeys(op.results))
            return
        chosen = op.regions[0 if condition else 1 :][:1]
        results = self._block(chosen[0]) if chosen else []
        self.values.update(zip(op.results, results))

    def _while(self, op: Op, carried: list[Any]) -> None:
        before, after = op.regions
        for _ in range(MOST_ITERATIONS):
            self.values.update(zip(before.arguments, carried))
            condition, *passed = self._block(before)
            self.values.update(zip(op.results, passed))
            if condition is None:
                raise _NotKnownError
            if not condition:
                return
            self.values.update(zip(after.arguments, passed))
            carried = self._block(after)
        raise _NotKnownError


def _of_whole_tensors(body: Block, launch: Launch) -> LeastBytes:
    """As if each tensor that is read or written were so as a whole."""
    positions = {value: position for position, value in enumerate(body.arguments)}
    marks = {True: _Marks(list(launch.arguments.values())), False: _Marks(list(launch.arguments.values()))}
    for op in body.walk():
        if op.name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
            value: Value | None = op.operands[0]
            while value is not None and value not in positions:
                value = value.owner.operands[0] if value.owner and value.owner.operands else None
            if value is not None:
                marks[op.name == "tt.load"].add_all(positions[value])
    return LeastBytes(marks[True].bytes(), marks[False].bytes(), False)


def _is_integer(value: Value) -> bool:
    kind = value.type.element if isinstance(value.type, TensorType) else value.type
    if isinstance(kind, PointerType):
        return True
    return isinstance(kind, ScalarType) and kind.name.startswith(("i", "u", "s"))


def _is_boolean(kind: object) -> bool:
    return (kind.element if isinstance(kind, TensorType) else kind) == ScalarType("i1")


def _moved(name: str, op: Op, shape: tuple[int, ...], offset: Any, rest: list[Any]) -> Any:
    """The offset of addresses after an operation on them; None: not known."""
    if offset is None:
        return None
    if name == "tt.addptr":
        return None if rest[0] is None else offset + rest[0]
    if name in _SHAPES:
        return _SHAPES[name](offset, op, shape)
    return offset if name == "tt.bitcast" else None


def _divide(a: Any, b: Any) -> Any:
    """Towards zero; lanes that divide by zero are masked ones."""
    b = np.where(b == 0, 1, b)
    return (a - np.fmod(a, b)) // b


def _sign_extended(a: Any) -> Any:
    return -(a.astype(np.int64)) if getattr(a, "dtype", None) == np.bool_ else a


_SHAPES: dict[str, Callable[[Any, Op, tuple[int, ...]], Any]] = {
    "tt.splat": lambda a, op, shape: np.broadcast_to(a, shape),
    "tt.broadcast": lambda a, op, shape: np.broadcast_to(a, shape),
    "tt.expand_dims": lambda a, op, shape: np.reshape(a, shape),
    "tt.reshape": lambda a, op, shape: np.reshape(a, shape),
    "tt.trans": lambda a, op, shape: np.transpose(a, op.attrs["order"]),
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    **dict.fromkeys(("slt", "ult"), np.less),
    **dict.fromkeys(("sle", "ule"), np.less_equal),
    **dict.fromkeys(("sgt", "ugt"), np.greater),
    **dict.fromkeys(("sge", "uge"), np.greater_equal),
}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.remsi": lambda a, b: np.fmod(a, np.where(b == 0, 1, b)),
    "arith.remui": lambda a, b: np.fmod(a, np.where(b == 0, 1, b)),
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.maxui": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.select": np.where,
    "arith.extsi": _sign_extended,
    "arith.extui": lambda a: a + 0,
    "arith.index_cast": lambda a: a,
}

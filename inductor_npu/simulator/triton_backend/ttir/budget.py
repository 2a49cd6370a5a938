"""How much on-chip memory a kernel needs: the peak of bytes of tiles that are live at once.

The model, per program:

- Counted are *data* tiles: what is loaded from memory that differs between elements, and what is computed from it. An
  i1 tile takes one bit an element; sizes are rounded up to the target's alignment. Scalars live in registers.
- Not counted are tiles that a vector unit never holds: pointers, constants and splats, ranges, index arithmetic on
  ranges (sums, differences, products, quotients and remainders with something uniform, minimum, maximum, choice), and
  masks made of comparisons of those.
- expand_dims, broadcast, reshape and bitcast are other views of the same tile. Everything else makes a tile of its own,
  which an elementwise operation may put in the place of an operand that dies there and is not smaller.
- A tile is live from the operation that makes it to its last use in program order. What a loop reads from outside is
  live throughout the loop; a carried value takes one place: its initial value, its values in the loop and the loop's
  result share it where they are not needed otherwise.
- A dot reads its operands from L1/L0: a tile that is loaded only to be an operand of dots is not in the Unified Buffer.
  Its accumulator is in L0C, also while a loop carries it.

Multiple buffering is not counted: a kernel that fits exactly runs without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeGuard

from ....target import NpuTarget
from .ir import Block, Function, Op, PointerType, ScalarType, SourceLine, TensorType, Type, Value
from .literals import element_bits

_VIEWS = frozenset({"tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.bitcast", "arith.bitcast"})
_UNIFORM_SOURCES = frozenset({"arith.constant", "tt.splat", "ub.poison", "tt.get_program_id", "tt.get_num_programs"})
_INDEX_ARITHMETIC = frozenset(
    {
        "arith.addi",
        "arith.subi",
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
        "arith.index_cast",
        "arith.minsi",
        "arith.minui",
        "arith.maxsi",
        "arith.maxui",
        "arith.select",
        "arith.cmpi",
    }
)
_INDEX_ARITHMETIC_WITH_UNIFORM = frozenset(
    {
        "arith.muli",
        "arith.divsi",
        "arith.divui",
        "arith.remsi",
        "arith.remui",
        "arith.shli",
        "arith.shrsi",
        "arith.shrui",
        "arith.andi",
    }
)
_MASK_LOGIC = frozenset({"arith.andi", "arith.ori", "arith.xori"})
_SHAPE_OPERATIONS = _VIEWS | {"tt.trans", "tt.join", "tt.split", "tt.cat", "tt.addptr", "tt.unsplat"}
_NOT_ELEMENTWISE = frozenset(
    {
        "tt.reduce",
        "tt.scan",
        "tt.trans",
        "tt.join",
        "tt.cat",
        "tt.split",
        "tt.gather",
        "tt.histogram",
        "tt.dot",
        "tt.dot_scaled",
    }
)
_DOTS = frozenset({"tt.dot", "tt.dot_scaled"})
_LOOPS = frozenset({"scf.for", "scf.while"})

UNIFORM, INDEX, DATA = "uniform", "index", "data"


@dataclass(frozen=True)
class LiveTile:
    """A tile at the peak, with its size in bytes and the line that makes it."""

    bytes: int
    type: Type
    line: SourceLine | None


@dataclass
class Footprint:
    """Peaks in bytes, and the tiles that are live at the Unified Buffer's peak, largest first."""

    unified_buffer: int = 0
    l0c: int = 0
    largest: list[LiveTile] = field(default_factory=list)


def footprint(kernel: Function, target: NpuTarget) -> Footprint:
    """What `kernel`, with all calls inlined, needs of `target`'s on-chip buffers."""
    return _Liveness(kernel, target).footprint


class _Forms:
    """In which form each value exists: UNIFORM (one number), INDEX (computed from ranges, or a pointer) or DATA."""

    def __init__(self, kernel: Function) -> None:
        self._forms: dict[Value, str] = {}
        self._visit(kernel.body)

    def __getitem__(self, value: Value) -> str:
        return self._forms.get(value) or (DATA if _is_number_tile(value.type) else UNIFORM)

    def _visit(self, block: Block) -> None:
        for op in block.ops:
            if op.name in _LOOPS:
                self._visit_loop(op)
                continue
            for region in op.regions:
                self._visit(region)
            for index, result in enumerate(op.results):
                self._forms[result] = self._form(op, index, result)

    def _visit_loop(self, op: Op) -> None:
        """A carried value keeps the form of its initial value if one turn of the loop does not change it."""
        first = 3 if op.name == "scf.for" else 0
        carried = op.operands[first:]
        places = [region.arguments[-len(carried) :] if carried else [] for region in op.regions]
        forms = [INDEX if _is_integer_tile(value.type) else self[value] for value in carried]
        while True:
            for arguments in places:
                for argument, form in zip(arguments, forms, strict=False):
                    self._forms[argument] = DATA if form == UNIFORM and _is_number_tile(argument.type) else form
            for region in op.regions:
                self._visit(region)
            ends = op.regions[-1].ops[-1].operands
            found = [
                DATA if DATA in (self[start], self[end]) and _is_number_tile(end.type) else form
                for start, end, form in zip(carried, ends, forms, strict=True)
            ]
            if found == forms:
                break
            forms = found
        for result in op.results:
            self._forms[result] = DATA
        if op.name == "scf.for":
            self._forms.update(zip(op.results, (self[argument] for argument in places[0]), strict=True))

    def _form(self, op: Op, index: int, result: Value) -> str:
        type_ = result.type
        if not isinstance(type_, TensorType):
            return UNIFORM
        if isinstance(type_.element, PointerType):
            uniform = all(self[value] == UNIFORM for value in op.operands)
            return UNIFORM if uniform and not op.regions else INDEX
        if op.name == "tt.make_range":
            return INDEX
        if op.name == "scf.if":
            ends = [region.ops[-1].operands[index] for region in op.regions]
            return DATA if any(self[end] == DATA for end in ends) else INDEX
        if op.regions or op.name in _DOTS or op.name.startswith("tt.atomic"):
            return DATA
        forms = [self[value] for value in op.operands]
        if all(form == UNIFORM for form in forms):
            return UNIFORM
        if DATA not in forms and self._is_index_arithmetic(op, forms):
            return INDEX
        return DATA

    @staticmethod
    def _is_index_arithmetic(op: Op, forms: list[str]) -> bool:
        if op.name in _INDEX_ARITHMETIC or op.name in _SHAPE_OPERATIONS:
            return True
        if op.name in _MASK_LOGIC and _is_mask(op.result.type):
            return True
        return op.name in _INDEX_ARITHMETIC_WITH_UNIFORM and UNIFORM in forms


class _Liveness:
    """Walks a kernel backwards with the set of tiles that are still needed."""

    def __init__(self, kernel: Function, target: NpuTarget) -> None:
        self.footprint = Footprint()
        self._alignment = target.alignment
        self._forms = _Forms(kernel)
        self._users: dict[Value, list[Op]] = {}
        for op in kernel.body.walk():
            for operand in op.operands:
                self._users.setdefault(operand, []).append(op)
        self._accumulators = self._find_accumulators(kernel)
        self._lines = {value: op.line for op in kernel.body.walk() for value in op.results}
        self._sizes: dict[Value, int] = {}
        self._peak: set[Value] = set()
        self._walk(kernel.body, set())
        tiles = [LiveTile(self._size(value), value.type, self._lines.get(value)) for value in self._peak]
        self.footprint.largest = sorted(tiles, key=lambda tile: (-tile.bytes, str(tile.line)))

    # Which tiles count, and where

    def _find_accumulators(self, kernel: Function) -> set[Value]:
        """Results of dots, and the carried values that hold them."""
        found = {result for op in kernel.body.walk() if op.name in _DOTS for result in op.results}
        for op in kernel.body.walk():
            if op.name == "scf.for":
                ends = op.regions[0].ops[-1].operands
                for argument, end, result in zip(op.regions[0].arguments[1:], ends, op.results, strict=True):
                    if end in found and end.owner is not None and end.owner.name in _DOTS:
                        found |= {argument, result}
        return found

    def _size(self, value: Value) -> int:
        """Bytes that `value` takes in the Unified Buffer."""
        if value not in self._sizes:
            counted = (
                _is_number_tile(value.type)
                and self._forms[value] == DATA
                and value not in self._accumulators
                and not self._goes_to_l1(value)
            )
            self._sizes[value] = self._bytes(value.type) if counted else 0
        return self._sizes[value]

    def _bytes(self, type_: Type) -> int:
        if not _is_number_tile(type_):
            return 0
        size = -(-math.prod(type_.shape) * element_bits(type_.element) // 8)
        return -(-size // self._alignment) * self._alignment

    def _goes_to_l1(self, value: Value) -> bool:
        """Whether `value` is loaded only to be an operand of dots."""
        if value.owner is None or value.owner.name not in ("tt.load", "tt.trans", "tt.fp_to_fp", *_VIEWS):
            return False
        if value.owner.name != "tt.load" and not self._goes_to_l1(value.owner.operands[0]):
            return False
        return self._feeds_dots_only(value)

    def _feeds_dots_only(self, value: Value) -> bool:
        users = self._users.get(value, [])
        return bool(users) and all(
            value in user.operands[:2]
            if user.name in _DOTS
            else user.name in _VIEWS | {"tt.trans"} and self._feeds_dots_only(user.result)
            for user in users
        )

    def _root(self, value: Value) -> Value:
        """The tile that `value` is a view of."""
        while value.owner is not None and value.owner.name in _VIEWS and self._forms[value] == DATA:
            value = value.owner.operands[0]
        return value

    # The walk

    def _walk(self, block: Block, live: set[Value]) -> set[Value]:
        """Account for `block`, given the tiles needed after it; returns those needed before it."""
        live = set(live)
        for op in reversed(block.ops):
            results = {self._root(value) for value in op.results} if op.name not in _VIEWS else set()
            after = live - results
            if op.name in _LOOPS:
                live = self._walk_loop(op, after)
            elif op.name == "scf.if":
                branches = [self._walk(region, after) for region in op.regions]
                live = set.union(after, *branches)
            else:
                live = after | {self._root(value) for value in op.operands}
                self._account(op, live, results, after)
        return live

    def _walk_loop(self, op: Op, after: set[Value]) -> set[Value]:
        read_from_outside = self._read_from_outside(op)
        throughout = after | read_from_outside
        for region in op.regions:
            entering = self._walk(region, throughout)
            self._record(entering)
        return throughout | {self._root(value) for value in op.operands}

    def _read_from_outside(self, op: Op) -> set[Value]:
        inside: set[Value] = set()
        used: set[Value] = set()
        for region in op.regions:
            inside |= set(region.arguments)
            for inner in region.walk():
                inside |= set(inner.results)
                inside.update(*(block.arguments for block in inner.regions))
                used |= set(inner.operands)
        return {self._root(value) for value in used if value not in inside} - inside

    def _account(self, op: Op, before: set[Value], results: set[Value], after: set[Value]) -> None:
        reused = 0
        if op.name not in _NOT_ELEMENTWISE and results:
            needed = max(self._size(value) for value in results)
            dying = [self._size(value) for value in before - after]
            reused = needed if any(size >= needed for size in dying) else 0
        self._record(before | results, reused)

    def _record(self, live: set[Value], reused: int = 0) -> None:
        total = sum(self._size(value) for value in live) - reused
        if total >= self.footprint.unified_buffer:  # of several peaks the first in program order, which is met last
            self.footprint.unified_buffer = total
            self._peak = {value for value in live if self._size(value)}
        l0c = {value for value in live if value in self._accumulators}
        if l0c:
            self.footprint.l0c = max(self.footprint.l0c, self._l0c_bytes(l0c))

    def _l0c_bytes(self, live: set[Value]) -> int:
        """A dot adds in place: its result takes the accumulator operand's place unless that is used otherwise."""
        total = 0
        for value in live:
            dot = value.owner if value.owner is not None and value.owner.name in _DOTS else None
            shares = dot is not None and dot.operands[2] in live and len(self._users[dot.operands[2]]) == 1
            total += 0 if shares else self._bytes(value.type)
        return total


def _is_number_tile(type_: Type) -> TypeGuard[TensorType]:
    return isinstance(type_, TensorType) and isinstance(type_.element, ScalarType)


def _is_integer_tile(type_: Type) -> bool:
    return _is_number_tile(type_) and str(type_.element).startswith("i")


def _is_mask(type_: Type) -> bool:
    return _is_number_tile(type_) and type_.element == ScalarType("i1")

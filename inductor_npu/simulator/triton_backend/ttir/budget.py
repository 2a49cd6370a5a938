"""How much of the Unified Buffer and of L0C a kernel needs: a model of how Ascend's compiler plans them.

The kernel is walked once in program order, as the compiler places buffers: each tile gets the first gap that it fits
in, from the operation that makes it to its last use.

- *Tiles.* What is loaded, and what is computed from it; index arithmetic only where data is computed from it, or where
  a mask does not just bound a transfer (`forms.py`). A number is spread over a tile for operations that take none.
- *In place.* An elementwise result takes the place of an operand that dies there and whose elements are no narrower; a
  selection never does. The place keeps its size: what a mask leaves of it is lost until the mask dies.
- *Temporaries* of single operations are in `vector_unit.py`.
- *Views.* expand_dims, reshape, bitcast and a broadcast that arithmetic reads are the same tile; other broadcasts make
  one, that of a mask at 16 bits an element.
- *Single elements.* A load whose neighbours lie apart moves one element into each 32 bytes, and packs them then. Where
  the compiler walks along another axis, and for stores, tiles of that shape stay so: 32 bytes an element.
- *Loops.* What a loop reads from outside stays throughout. A carried value takes one place.
- *Dots.* A tile that is loaded only to be an operand of dots is in L1, an accumulator in L0C.

Double buffers are not counted: the compiler leaves them out where they do not fit. docs/ascend.md says how well this
agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ....target import NpuTarget
from .forms import DOTS, LOOPS, UNKNOWN, VIEWS, Forms, is_mask, is_number_tile
from .ir import Block, Function, Op, SourceLine, TensorType, Type, Value
from .literals import element_bits
from .vector_unit import (
    BLOCK,
    NARROW_ARITHMETIC,
    NEEDS_TILES,
    NOT_IN_PLACE,
    REDUCED_AT_ONCE,
    SCRATCH_OF_MASK,
    SCRATCH_OF_SELECTION,
    TILES_OF_NARROW_ARITHMETIC,
    temporary_tiles,
)

_ARITHMETIC = frozenset(
    {f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "maxnumf", "minnumf", "maximumf", "minimumf")}
    | {f"arith.{name}" for name in ("addi", "subi", "muli", "maxsi", "minsi", "divsi", "cmpf")}
)
_NOT_ELEMENTWISE = frozenset(
    {"tt.load", "tt.reduce", "tt.scan", "tt.trans", "tt.join", "tt.cat", "tt.split", "tt.gather", "tt.histogram", *DOTS}
)


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
    forms = Forms(kernel)
    accumulators = _accumulators(kernel)
    found = _Planner(kernel, target, forms, accumulators).footprint
    found.l0c = _L0C(kernel, accumulators, forms).peak
    return found


@dataclass(eq=False)
class _Buffer:
    """A place: `bytes` from `start`. `references` counts the values in it that are still to be read."""

    start: int
    bytes: int
    type: Type
    line: SourceLine | None
    references: int = 0


class _Planner:
    """Walks a kernel forwards and places its tiles."""

    def __init__(self, kernel: Function, target: NpuTarget, forms: Forms, accumulators: set[Value]) -> None:
        self.footprint = Footprint()
        self._alignment = target.burst_bytes
        self._forms = forms
        self._elsewhere = accumulators
        self._spread = _spread_shapes(kernel, forms)
        self._live: list[_Buffer] = []  # by start
        self._places: dict[Value, _Buffer] = {}
        self._reads: dict[Value, int] = {}
        for op in kernel.body.walk():
            for value in self._read(op):
                self._reads[value] = self._reads.get(value, 0) + 1
        self._walk(kernel.body, {})

    # Places

    def _bytes(self, type_: Type) -> int:
        if not is_number_tile(type_):
            return 0
        bits = BLOCK * 8 if type_.shape in self._spread else element_bits(type_.element)
        return -(-math.prod(type_.shape) * bits // 8)

    def _allocate(self, size: float, type_: Type, line: SourceLine | None) -> _Buffer:
        """The first gap of `size` bytes."""
        size = -(-math.ceil(size) // self._alignment) * self._alignment
        start, position = 0, 0
        for position, other in enumerate(self._live):  # noqa: B007 - the position is used after the loop
            if other.start - start >= size:
                break
            start = max(start, other.start + other.bytes)
        else:
            position = len(self._live)
        buffer = _Buffer(start, size, type_, line)
        self._live.insert(position, buffer)
        if start + size > self.footprint.unified_buffer:
            self.footprint.unified_buffer = start + size
            tiles = [LiveTile(tile.bytes, tile.type, tile.line) for tile in self._live if tile.bytes]
            self.footprint.largest = sorted(tiles, key=lambda tile: (-tile.bytes, str(tile.line)))
        return buffer

    def _free(self, buffer: _Buffer) -> None:
        if buffer in self._live and buffer.references == 0:
            self._live.remove(buffer)

    def _put(self, value: Value, buffer: _Buffer) -> None:
        self._places[value] = buffer
        buffer.references += 1

    def _release(self, values: Iterable[Value]) -> None:
        """One operation has read `values`."""
        for value in values:
            self._reads[value] -= 1
            self._drop_if_unread(value)

    def _drop_if_unread(self, value: Value) -> None:
        if value in self._places and self._reads.get(value, 0) <= 0:
            buffer = self._places.pop(value)
            buffer.references -= 1
            self._free(buffer)

    # The walk

    def _read(self, op: Op) -> list[Value]:
        """The distinct tiles that `op` reads, numbers that it needs as tiles among them."""
        found = [value for value in self._forms.read(op) if self._is_placed(op, value)]
        return list(dict.fromkeys(found))

    def _is_placed(self, op: Op, value: Value) -> bool:
        if value in self._elsewhere or not is_number_tile(value.type):
            return False
        if not self._forms.is_uniform(value):
            return True
        if op.name == "arith.cmpi":
            return op.attrs["predicate"] in ("eq", "ne") or element_bits(value.type.element) == 64
        if op.name in LOOPS:
            return True
        if op.name not in NEEDS_TILES or is_mask(value.type):
            return False
        position = NEEDS_TILES[op.name]
        return position is None or (len(op.operands) > position and op.operands[position] is value)

    def _walk(self, block: Block, carried: dict[Value, Value]) -> None:
        """Places what `block` makes. `carried`: of a loop's yielded values, the argument that each becomes."""
        for op in block.ops:
            if op.name in LOOPS:
                self._walk_loop(op)
            elif op.name == "scf.if":
                self._walk_branches(op)
            elif op.name in ("scf.yield", "scf.condition"):
                self._release(self._read(op))
            else:
                self._place(op, carried)

    def _walk_loop(self, op: Op) -> None:
        first = 3 if op.name == "scf.for" else 0
        outside = self._pin(op)
        starts = op.operands[first:]
        homes = []
        for position, start in enumerate(starts):
            tile = op.results[position] if position < len(op.results) else start
            home = None
            if is_number_tile(tile.type) and self._forms.is_tile(tile) and tile not in self._elsewhere:
                taken = self._places.get(start)
                dies = taken is not None and taken.references == 1 and self._reads[start] == 1
                home = (
                    taken if dies and taken is not None else self._allocate(self._bytes(tile.type), tile.type, op.line)
                )
                home.references += 1
            homes.append(home)
        self._release(self._read(op))
        for region in op.regions:
            arguments = region.arguments[-len(starts) :] if starts else []
            ends = region.ops[-1].operands[-len(starts) :] if starts else []
            for argument, home in zip(arguments, homes, strict=False):
                if home is not None and self._reads.get(argument):
                    self._put(argument, home)
            self._walk(region, dict(zip(ends, arguments, strict=False)))
            for argument in arguments:
                self._places.pop(argument, None)
        for position, home in enumerate(homes):
            if home is None:
                continue
            home.references = 0
            if position < len(op.results) and self._reads.get(op.results[position]):
                self._put(op.results[position], home)
            self._free(home)
        self._unpin(outside)

    def _walk_branches(self, op: Op) -> None:
        outside = self._pin(op)
        self._release(self._read(op))
        for region in op.regions:
            self._walk(region, {})
        for result in op.results:
            if self._forms.is_tile(result) and result not in self._elsewhere:
                self._put(result, self._allocate(self._bytes(result.type), result.type, op.line))
                self._drop_if_unread(result)
        self._unpin(outside)

    def _pin(self, op: Op) -> list[_Buffer]:
        """Keeps what the regions of `op` read from outside until `_unpin`."""
        inner = {value for region in op.regions for nested in region.walk() for value in self._read(nested)}
        buffers = list(
            {id(self._places[value]): self._places[value] for value in inner if value in self._places}.values()
        )
        for buffer in buffers:
            buffer.references += 1
        return buffers

    def _unpin(self, buffers: list[_Buffer]) -> None:
        for buffer in buffers:
            buffer.references -= 1
            self._free(buffer)

    # One operation

    def _place(self, op: Op, carried: dict[Value, Value]) -> None:
        read = self._read(op)
        results = [value for value in op.results if self._is_made(value)]
        if op.name in VIEWS and results and self._is_view(op) and read and read[0] in self._places:
            self._put(results[0], self._places[read[0]])
            temporaries = self._of_column(op)
        elif results:
            temporaries = self._temporaries(op, read)
            dying = [value for value in read if self._dies(value)]
            place = self._in_place(op, results[0], dying, carried)
            for value in results:
                chosen = place if value is results[0] and place else None
                if chosen is None and self._takes_temporary(op) and temporaries:
                    chosen = temporaries.pop()
                self._put(value, chosen or self._allocate(self._result_bytes(op, value), value.type, op.line))
        else:
            temporaries = []
        for temporary in temporaries:
            self._free(temporary)
        self._release(read)
        for value in results:
            self._drop_if_unread(value)

    def _is_made(self, value: Value) -> bool:
        if value in self._elsewhere or not is_number_tile(value.type):
            return False
        if self._forms.is_uniform(value):
            return self._reads.get(value, 0) > 0
        return self._forms.is_tile(value)

    def _dies(self, value: Value) -> bool:
        return value in self._places and self._reads[value] == 1 and self._places[value].references == 1

    def _in_place(self, op: Op, result: Value, dying: list[Value], carried: dict[Value, Value]) -> _Buffer | None:
        argument = carried.get(result)
        if argument is not None and argument in self._places and self._reads.get(argument, 0) <= 1:
            return self._places[argument]
        if op.name in NOT_IN_PLACE or op.name in _NOT_ELEMENTWISE or op.name in VIEWS or op.regions:
            return None
        for value in dying:
            wide = _bits(result) <= _bits(value) and not (is_mask(value.type) and not is_mask(result.type))
            if wide and self._places[value].bytes >= self._bytes(result.type) and _shape(value) == _shape(result):
                return self._places[value]
        return None

    def _is_view(self, op: Op) -> bool:
        if op.name != "tt.broadcast":
            return True
        if is_mask(op.result.type) or op.result.type.shape in self._spread:  # type: ignore[union-attr]
            return is_mask(op.result.type) is False
        return all(user.name in _ARITHMETIC for user in self._forms.users.get(op.result, []))

    def _of_column(self, op: Op) -> list[_Buffer]:
        """The blocks over which a column is spread to be combined with a tile."""
        if op.name != "tt.broadcast" or _shape(op.operands[0])[-1:] != (1,) or _shape(op.result)[-1:] == (1,):
            return []
        return [self._allocate(math.prod(_shape(op.operands[0])) * BLOCK, op.result.type, op.line)]

    def _result_bytes(self, op: Op, result: Value) -> float:
        if is_mask(result.type):
            source = op.operands[0] if op.operands else result
            if op.name == "tt.broadcast":
                return max(self._bytes(result.type), 2 * math.prod(_shape(result)))  # as numbers of 16 bits
            if op.name == "arith.cmpi" and _bits(source) == 64:
                return math.prod(_shape(result))  # as bytes, one by one
        elif op.operands and is_mask(op.operands[0].type) and op.name in ("arith.extui", "arith.extsi"):
            return max(self._bytes(result.type), 2 * math.prod(_shape(result)))
        return self._bytes(result.type)

    @staticmethod
    def _takes_temporary(op: Op) -> bool:
        return op.name in ("arith.cmpi", "arith.trunci") and is_mask(op.result.type)

    def _temporaries(self, op: Op, read: list[Value]) -> list[_Buffer]:
        sizes = [temporary_tiles(op) * self._bytes(op.results[0].type)]
        if op.name == "tt.load":
            sizes += self._of_load(op)
        elif op.name == "tt.reduce":
            sizes += self._of_reduction(op)
        elif self._takes_temporary(op):
            sizes += self._of_mask(op)
        elif op.name == "arith.select":
            sizes.append(0.75 * self._bytes(op.result.type) if _bits(op.result) == 64 else SCRATCH_OF_SELECTION)
        elif op.name in NARROW_ARITHMETIC and _bits(op.result) == 8:
            sizes.append(float(TILES_OF_NARROW_ARITHMETIC * self._bytes(op.result.type)))
        elif any(is_mask(value.type) for value in read) and (
            op.name == "tt.broadcast" or not is_mask(op.results[0].type)
        ):
            sizes.append(SCRATCH_OF_MASK)
        return [self._allocate(size, op.results[0].type, op.line) for size in sizes if size]

    def _of_load(self, op: Op) -> list[float]:
        sizes = []
        if self._forms.is_selected(op):
            sizes += [float(self._bytes(op.result.type)), SCRATCH_OF_SELECTION]
        step = _last_step(self._forms.index_of(op.operands[0]).steps, _shape(op.result))
        if step not in (None, 0, 1) and op.result.type.shape not in self._spread:  # type: ignore[union-attr]
            is_pair = step == 2 and len(op.operands) == 1  # read with what lies between, then picked from it
            apart = 2 * self._bytes(op.result.type) if is_pair else BLOCK * math.prod(_shape(op.result))
            sizes.append(float(apart))
        return sizes

    def _of_mask(self, op: Op) -> list[float]:
        source = op.operands[0]
        elements = math.prod(_shape(op.result))
        if _bits(source) == 8:
            return [2.0 * elements, 2.0 * elements]  # both sides as numbers of 16 bits
        if op.name == "arith.cmpi" and op.attrs["predicate"] not in ("eq", "ne") and 1 < _bits(source) < 64:
            return [float(self._bytes(source.type))]  # the greater of both
        return []

    def _of_reduction(self, op: Op) -> list[float]:
        source = op.operands[0]
        shape, size = _shape(source), float(self._bytes(source.type))
        if shape in self._spread:
            return [size]
        axis = op.attrs["axis"]
        tiles = len(op.operands) if op.regions[0].ops[0].name != "arith.mulf" else 2
        if any(length > 1 for length in shape[axis + 1 :]) or tiles > 1:
            return [size * (tiles if len(op.operands) == 1 or axis + 1 < len(shape) else 1)]
        if shape[axis] * _bits(source) // 8 <= REDUCED_AT_ONCE:
            return []
        return [size / 2]


def _spread_shapes(kernel: Function, forms: Forms) -> set[tuple[int, ...]]:
    """The shapes of tiles whose elements lie 32 bytes apart."""
    found = set()
    for op in kernel.body.walk():
        if op.name not in ("tt.load", "tt.store") or not op.operands:
            continue
        type_ = op.operands[0].type
        if not isinstance(type_, TensorType):
            continue
        steps = forms.index_of(op.operands[0]).steps
        step = _last_step(steps, type_.shape)
        if step in (None, 0, 1):
            continue
        walked = any(other is None for other, size in zip(steps, type_.shape, strict=True) if size > 1)
        if op.name == "tt.store" or walked or step == UNKNOWN:
            found.add(type_.shape)
    return found


def _last_step(steps: tuple[float | None, ...], shape: tuple[int, ...]) -> float | None:
    """The step between neighbours of the tile; 1 where it has none."""
    return next((step for step, size in zip(reversed(steps), reversed(shape), strict=True) if size > 1), 1)


def _accumulators(kernel: Function) -> set[Value]:
    """Results of dots and the carried values that hold them, and tiles that are loaded only to be operands of dots."""
    users: dict[Value, list[Op]] = {}
    for op in kernel.body.walk():
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    found = {result for op in kernel.body.walk() if op.name in DOTS for result in op.results}
    for op in kernel.body.walk():
        if op.name == "scf.for":
            ends = op.regions[0].ops[-1].operands
            for argument, end, result in zip(op.regions[0].arguments[1:], ends, op.results, strict=True):
                if end in found and end.owner is not None and end.owner.name in DOTS:
                    found |= {argument, result}
    loaded: set[Value] = set()
    for op in kernel.body.walk():
        if op.name == "tt.load" or (op.name in ("tt.trans", "tt.fp_to_fp", *VIEWS) and op.operands[0] in loaded):
            loaded |= {op.result} if _feeds_dots_only(op.result, users) else set()
    return found | loaded


def _feeds_dots_only(value: Value, users: dict[Value, list[Op]]) -> bool:
    own = users.get(value, [])
    return bool(own) and all(
        value in user.operands[:2]
        if user.name in DOTS
        else user.name in VIEWS | {"tt.trans"} and _feeds_dots_only(user.result, users)
        for user in own
    )


class _L0C:
    """The peak of accumulators that are live at once. Walks backwards with those that are still needed."""

    def __init__(self, kernel: Function, accumulators: set[Value], forms: Forms) -> None:
        self.peak = 0
        self._users = forms.users
        self._accumulators = {v for v in accumulators if v.owner is None or v.owner.name in DOTS | LOOPS}
        dots = [op for op in kernel.body.walk() if op.name in DOTS]
        if dots:
            self._walk(kernel.body, set())

    def _walk(self, block: Block, after: set[Value]) -> set[Value]:
        live = set(after)
        for op in reversed(block.ops):
            live -= set(op.results)
            for region in op.regions:
                live |= self._walk(region, live) - set(region.arguments)
            live |= {value for value in op.operands if value in self._accumulators}
            self._record(live | {value for value in op.results if value in self._accumulators})
        return live

    def _record(self, live: set[Value]) -> None:
        """A dot adds in place: its result takes the accumulator operand's place unless that is used otherwise."""
        total = 0
        for value in live:
            dot = value.owner if value.owner is not None and value.owner.name in DOTS else None
            shares = dot is not None and dot.operands[2] in live and len(self._users[dot.operands[2]]) == 1
            loop = value.owner if value.owner is not None and value.owner.name in LOOPS else None
            total += 0 if shares or (loop is not None and len(live) > 1) else _tile_bytes(value)
        self.peak = max(self.peak, total)


def _tile_bytes(value: Value) -> int:
    type_ = value.type
    return -(-math.prod(type_.shape) * element_bits(type_.element) // 8) if is_number_tile(type_) else 0


def _bits(value: Value) -> int:
    return element_bits(value.type.element) if is_number_tile(value.type) else 0


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()

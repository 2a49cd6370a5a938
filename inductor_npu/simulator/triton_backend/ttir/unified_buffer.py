"""The Unified Buffer: how Ascend's compiler places a kernel's tiles in it.

The kernel is walked once in program order, as the compiler places buffers: each tile gets the first gap that it fits
in, from the operation that makes it to its last use.

- *Tiles.* What is loaded, and what is computed from it; index arithmetic only where data is computed from it, or where
  a mask does not just bound a transfer (`forms.py`). A number is spread over a tile where an operation takes none.
- *In place.* An elementwise result takes the place of an operand that dies there and whose elements are no narrower; a
  selection never does. The place keeps its size: what a mask leaves of it is lost until the mask dies.
- *Temporaries* of single operations are in `vector_unit.py`.
- *Views.* expand_dims, reshape, bitcast and a broadcast that arithmetic reads are the same tile; other broadcasts make
  one, that of a mask at 16 bits an element.
- *Single elements.* A load whose neighbours lie apart moves one element into each 32 bytes, and packs them then. Where
  the compiler walks along another axis, and for stores, tiles of that shape stay so: 32 bytes an element.
- *Loops.* What a loop reads from outside stays throughout. A carried value takes one place.
- *Dots.* `cube_values.py` says what the vector cores have of them: what they read of an accumulator is a tile.

Double buffers are not counted: the compiler leaves them out where they do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ....target import NpuTarget
from .cube_values import CubeValues
from .forms import DOTS, LOOPS, VIEWS, Forms, is_mask, is_number_tile
from .ir import Block, Function, Op, SourceLine, Type, Value
from .literals import element_bits
from .tile_sizes import TileSizes, bits_of, shape_of, takes_temporary
from .vector_unit import BLOCK, FILLED_AT_USE, NEEDS_TILES, NOT_IN_PLACE

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
class Peak:
    """The most bytes that are live at once, and the tiles that are then, largest first."""

    bytes: int = 0
    largest: list[LiveTile] = field(default_factory=list)

    def reach(self, size: int, tiles: Iterable[LiveTile]) -> None:
        """`tiles` are live at once, and end at `size`."""
        if size > self.bytes:
            self.bytes = size
            self.largest = sorted(
                (tile for tile in tiles if tile.bytes), key=lambda tile: (-tile.bytes, str(tile.line))
            )


def unified_buffer_peak(kernel: Function, target: NpuTarget, forms: Forms, cube: CubeValues) -> Peak:
    """What the tiles of `kernel`, as one vector core has them, need."""
    return _Planner(kernel, target, forms, cube).peak


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

    def __init__(self, kernel: Function, target: NpuTarget, forms: Forms, cube: CubeValues) -> None:
        self.peak = Peak()
        self._alignment = target.burst_bytes
        self._forms = forms
        self._cube = cube
        self._sizes = TileSizes(kernel, forms)
        self._live: list[_Buffer] = []  # by start
        self._places: dict[Value, _Buffer] = {}
        self._reads: dict[Value, int] = {}
        self._filled: set[Value] = set()  # numbers that are tiles from where they are made
        for op in kernel.body.walk():
            for value in self._read(op):
                self._reads[value] = self._reads.get(value, 0) + 1
                if op.name not in FILLED_AT_USE and forms.is_uniform(value):
                    self._filled.add(value)
        self._walk(kernel.body, {})

    # Places

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
        self.peak.reach(start + size, (LiveTile(tile.bytes, tile.type, tile.line) for tile in self._live))
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
        if value in self._cube.elsewhere or not is_number_tile(value.type):
            return False
        if not self._forms.is_uniform(value):
            return True
        if op.name == "arith.cmpi":
            return op.attrs["predicate"] in ("eq", "ne") or element_bits(value.type.element) == 64
        if op.name in LOOPS:
            return any(
                start is value and result not in self._cube.accumulators
                for start, result in zip(reversed(op.operands), reversed(op.results), strict=False)
            )
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
            if is_number_tile(tile.type) and self._forms.is_tile(tile) and not self._cube.holds(tile):
                taken = self._places.get(start)
                dies = taken is not None and taken.references == 1 and self._reads[start] == 1
                home = (
                    taken
                    if dies and taken is not None
                    else self._allocate(self._sizes.bytes(tile.type), tile.type, op.line)
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
        self._read_from_cube(op)

    def _read_from_cube(self, op: Op) -> None:
        """Places what the vector cores read of the accumulators that are `op`'s results."""
        for value in op.results:
            if value not in self._cube.read or not self._reads.get(value):
                continue
            size = self._sizes.bytes(value.type)
            if value in self._cube.read_twice:  # the second time with rows that end between blocks
                rows = math.prod(shape_of(value)[:-1])
                size += size + rows * (BLOCK - element_bits(value.type.element) // 8)  # type: ignore[union-attr]
            self._put(value, self._allocate(size, value.type, op.line))

    def _walk_branches(self, op: Op) -> None:
        outside = self._pin(op)
        self._release(self._read(op))
        for region in op.regions:
            self._walk(region, {})
        for result in op.results:
            if self._forms.is_tile(result) and result not in self._cube.elsewhere:
                self._put(result, self._allocate(self._sizes.bytes(result.type), result.type, op.line))
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
        self._fill(op, read)
        results = [value for value in op.results if self._is_made(value)]
        if op.name in DOTS:
            operands = [value for value in read if value in op.operands[:2]]
            self._release(operands)  # they have left for L1 when the product comes
            self._read_from_cube(op)
            self._release(value for value in read if value not in operands)
            return
        if op.name in VIEWS and results and self._is_view(op) and read and read[0] in self._places:
            self._put(results[0], self._places[read[0]])
            temporaries = self._of_column(op)
        elif results:
            temporaries = [
                self._allocate(size, op.results[0].type, op.line) for size in self._sizes.of_temporaries(op, read)
            ]
            dying = [value for value in read if self._dies(value)]
            place = self._in_place(op, results[0], dying, carried)
            for value in results:
                chosen = place if value is results[0] and place else None
                if chosen is None and takes_temporary(op) and temporaries:
                    chosen = temporaries.pop()
                self._put(value, chosen or self._allocate(self._sizes.of_result(op, value), value.type, op.line))
        else:
            temporaries = []
        for temporary in temporaries:
            self._free(temporary)
        self._release(read)
        for value in results:
            self._drop_if_unread(value)

    def _fill(self, op: Op, read: list[Value]) -> None:
        """Spreads the numbers that `op` needs as tiles over tiles of its own."""
        for value in read:
            if self._forms.is_uniform(value) and value not in self._filled:
                self._put(value, self._allocate(self._sizes.bytes(value.type), value.type, op.line))
                self._reads[value] = 1

    def _is_made(self, value: Value) -> bool:
        if value in self._cube.elsewhere or not is_number_tile(value.type):
            return False
        if self._forms.is_uniform(value):
            return value in self._filled
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
            wide = bits_of(result) <= bits_of(value) and not (is_mask(value.type) and not is_mask(result.type))
            if (
                wide
                and self._places[value].bytes >= self._sizes.bytes(result.type)
                and shape_of(value) == shape_of(result)
            ):
                return self._places[value]
        return None

    def _is_view(self, op: Op) -> bool:
        if op.name != "tt.broadcast":
            return True
        if is_mask(op.result.type) or op.result.type.shape in self._sizes.spread:  # type: ignore[union-attr]
            return is_mask(op.result.type) is False
        return all(user.name in _ARITHMETIC for user in self._forms.users.get(op.result, []))

    def _of_column(self, op: Op) -> list[_Buffer]:
        """The blocks over which a column is spread to be combined with a tile."""
        if op.name != "tt.broadcast" or shape_of(op.operands[0])[-1:] != (1,) or shape_of(op.result)[-1:] == (1,):
            return []
        return [self._allocate(math.prod(shape_of(op.operands[0])) * BLOCK, op.result.type, op.line)]

"""Sums of what is zero but at one place: `sum(where(index == place, value, 0))` adds each value where its index says.

A kernel for Ascend compares all indices with all places of a row (graph pass `short_scatters`), since the chip's scalar
core takes long for each address. The host adds `value` to the element of the result that `index` names: as many
additions as there are indices, whatever the row's length. So it does for the largest: `max(where(index == place,
number, -1))`, the last of the indices that are equal to the place, is written where each index says.

`place_values` finds such reductions before code is planned; `emit_placed` writes one. Chunks of indices are compared
with the bounds of the tile's places and what lies within is moved together, so that the loop over it has no branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..host_functions import PLACED
from ..ttir.ir import Block, Dense, Op, Value, splat_number
from .coordinates import Coordinate
from .frame import Frame, row_major
from .lanes import Index, Uniform, Vector
from .memory import Buffer
from .reductions import IDENTITIES, Uses, counted_by_loop, longer_axes, one_axis, peeled, terms, unbroadcast
from .types import BITS, element_bytes, element_of, is_float, llvm_type, shape_of
from .whole_chunks import is_worth_two_loops, never_holds, whole_chunks

if TYPE_CHECKING:
    from .builder import Val
    from .kernel import KernelGenerator

PLACE_BITS = 16  # of 32, of which the others say which index is meant
FEWEST_PLACES = 16  # for fewer, comparing all takes no more time


@dataclass(frozen=True)
class Placed:
    """A tile of `shape` that is the identity of `combine` where the index differs from the place along axis `place`, to
    be reduced along `axis`. Operands of the operation: the index, whose extent along `place` is 1; the places, one axis
    that counts up; the value; with `into` a tile that the results are combined with, where it is; conditions, where one
    of them is off the tile is the identity, too.

    `first` is what the results are where nothing is placed. `rising` values count up with the index, round by round,
    from `first` or more on.
    """

    shape: tuple[int, ...]
    axis: int
    place: int
    combine: str
    into: bool = False
    first: float = 0
    rising: bool = False


# -- what is one -----------------------------------------------------------------------------------------------------
def place_values(op: Op, combine: str, block: Block, uses: Uses) -> bool:
    """Whether `op` of `block`, a reduction by `combine`, is such a one: it then is an operation PLACED, in place; of a
    tile that a loop carries, the loop carries the results.
    """
    placed = _placed(op.operands[0], op.attrs["axis"], combine, uses, None)
    if placed is None:
        return _sink_into_loop(op, combine, block, uses)
    op.operands, op.attrs = placed[1], {"placed": placed[0]}
    op.name, op.regions = PLACED, []
    uses.note()
    return True


def _sink_into_loop(reduced: Op, combine: str, block: Block, uses: Uses) -> bool:
    carried = uses.carried(reduced, combine, block)
    placed = None if carried is None else _placed(carried.term, reduced.attrs["axis"], combine, uses, carried.loop)
    if carried is None or placed is None:
        return False
    loop, adding, type_ = carried.loop, carried.adding, reduced.result.type
    kind, (index, places, value, *conditions) = placed
    none = Dense(float(kind.first) if is_float(element_of(type_)) else int(kind.first))
    first = Op("arith.constant", [], [], {"value": none}, [], loop.line)
    first.results = [Value("%none", type_, first)]
    block.ops.insert(block.ops.index(loop), first)
    adding.name, adding.operands = PLACED, [index, places, value, carried.argument, *conditions]
    adding.attrs = {"placed": replace(kind, into=True)}
    source = reduced.operands[0]
    loop.operands[3 + source.index] = first.result
    for value in (carried.argument, adding.result, source):
        value.type = type_
    block.ops.remove(reduced)
    uses.replace(reduced.result, source)
    return True


def _placed(tile: Value, axis: int, combine: str, uses: Uses, loop: Op | None) -> tuple[Placed, list[Value]] | None:
    """How `tile` is to be reduced along `axis` place by place, and in the rounds of `loop`; the operands for that."""
    shape, identity = shape_of(tile.type), IDENTITIES[combine]
    conditions: list[Value] = []
    if element_of(tile.type) == "i1" or max(shape) > 1 << PLACE_BITS:
        return None
    while tile.owner is not None and tile.owner.name == "arith.select":
        condition, tile, other = tile.owner.operands
        otherwise, parts = splat_number(other), terms(condition)
        for number, term in enumerate(parts):
            found = _index_and_place(term, shape, axis)
            if found is not None:
                index, places, place = found
                kind = Placed(shape, axis, place, combine, first=identity)
                if otherwise != identity:
                    counts = _hold_somewhere(conditions, shape, axis, uses, loop)
                    if not counts or not _is_least(otherwise, combine, tile, uses):
                        return None
                    kind = replace(kind, first=otherwise, rising=_is_rising(tile, axis, uses, loop))
                conditions += [*parts[:number], *parts[number + 1 :]]
                return kind, [index, places, tile, *conditions]
        if otherwise != identity:
            return None
        conditions += parts
    return None


def _is_least(otherwise: float | None, combine: str, value: Value, uses: Uses) -> bool:
    """Whether `otherwise` counts where nothing else does: no value is less."""
    known = uses.range(value)
    return combine == "arith.maximumf" and otherwise is not None and known is not None and otherwise <= known[0]


def _hold_somewhere(conditions: list[Value], shape: tuple[int, ...], axis: int, uses: Uses, loop: Op | None) -> bool:
    """Whether there is an index along `axis`, in the rounds of `loop`, at which all `conditions` are known to hold,
    whatever the place: in a loop the first one, of conditions that say where indices end.
    """
    if loop is not None:
        runs = uses.rounds(loop.regions[0].arguments[0]) is not None
        return runs and all(_holds_at_first(condition, axis, uses, loop) for condition in conditions)
    tables = [uses.tables.of(unbroadcast(condition)) for condition in conditions]
    known = [np.broadcast_to(table, shape) for table in tables if table is not None]
    if len(known) < len(tables):
        return False
    others = tuple(other for other in range(len(shape)) if other != axis)
    return not known or bool(np.logical_and.reduce(known).all(axis=others).any())


def _holds_at_first(condition: Value, axis: int, uses: Uses, loop: Op) -> bool:
    condition = unbroadcast(condition)
    if longer_axes(condition) != [axis]:
        return False
    op = peeled(condition).owner
    if op is None or op.name != "arith.cmpi" or op.attrs["predicate"] != "slt":
        return False
    numbers, end = one_axis(op.operands[0]), splat_number(op.operands[1])
    if numbers is None or end is None or counted_by_loop(numbers, uses.loops) is not loop:
        return False
    known = uses.range(numbers)
    return known is not None and known[0] < end


def _is_rising(value: Value, axis: int, uses: Uses, loop: Op | None) -> bool:
    """Whether `value` is numbers that count up along `axis`, and on from round to round of `loop`."""
    value = unbroadcast(value)
    if longer_axes(value) != [axis]:
        return False
    value = peeled(value, "arith.sitofp")
    return one_axis(value) is not None and (loop is None or counted_by_loop(value, uses.loops) is loop)


def _index_and_place(condition: Value, shape: tuple[int, ...], axis: int) -> tuple[Value, Value, int] | None:
    """The index, the places and their axis, where `condition` is their comparison."""
    op = condition.owner
    if op is None or op.name != "arith.cmpi" or op.attrs["predicate"] != "eq" or shape_of(condition.type) != shape:
        return None
    sources = [unbroadcast(operand) for operand in op.operands]
    for index, places in (sources, sources[::-1]):
        longer = longer_axes(places)
        if len(longer) != 1 or longer[0] == axis or shape[longer[0]] < FEWEST_PLACES:
            continue
        (place,) = longer
        counted = one_axis(places)
        known = element_of(index.type) in ("i32", "i64")
        if known and shape_of(index.type)[place] == 1 and counted is not None:
            return index, counted, place
    return None


# -- its code --------------------------------------------------------------------------------------------------------
def emit_placed(kernel: KernelGenerator, op: Op) -> None:
    """Writes `op`; its result is kept in scratch, row-major."""
    placed: Placed = op.attrs["placed"]
    b = kernel.b
    kernel.work += math.prod(placed.shape) // placed.shape[placed.place] * 4
    home = _carried(kernel, op) if placed.into else _nothing_placed(kernel, op)
    frame = Frame(kernel, 0)
    first = kernel.elementwise.lanes.scalar(frame.evaluate(op.operands[1], (frame.maps.zero,)))
    at: dict[int, Index] = {}
    loops = []
    for axis, extent in enumerate(placed.shape):
        if axis not in (placed.axis, placed.place) and extent > 1:
            loops.append(b.open_loop(0, extent, 1))
            at[axis] = Index(loops[-1].iv, 0, "i64")
    here = [a for a in range(len(placed.shape)) if a != placed.axis]
    row = kernel.memory.buffer_address(home, [frame.maps.value(at.get(a, frame.maps.zero)) for a in here], 0)
    stride = home.strides[here.index(placed.place)]
    _Row(kernel, op, placed, at).add_to(kernel.elementwise.lanes.scalar(row), first, stride)
    for loop in reversed(loops):
        b.close_loop(loop)
    kernel.env[op.result] = home


def _nothing_placed(kernel: KernelGenerator, op: Op) -> Buffer:
    """A tile of results before anything is placed."""
    b, shape, element = kernel.b, shape_of(op.result.type), element_of(op.result.type)
    home = kernel.allocate(shape, element, row_major(shape))
    first, size = op.attrs["placed"].first, math.prod(shape)
    if first == 0:
        b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        bytes_ = size * element_bytes(element)
        pointer = kernel.memory.scratch_pointer(home.offset)
        b.line(f"call void @llvm.memset.p0.i64({pointer}, i8 0, i64 {bytes_}, i1 false)")
        return home
    width = kernel.options.vector_bits // 8 // element_bytes(element)
    width = width if size % width == 0 else 1
    loop = b.open_loop(0, size, width)
    flat = Buffer(home.offset, (size,), (1,), element)
    at = kernel.memory.buffer_address(flat, [Index(loop.iv, 1, "i64")], width)
    kernel.memory.store(at, Uniform(b.constant(element, first)), None, element, width)
    b.close_loop(loop)
    return home


def _carried(kernel: KernelGenerator, op: Op) -> Buffer:
    """Where a loop keeps the tile of results, which nobody but `op` reads in a round of it."""
    home = kernel.env[op.operands[3]]
    assert isinstance(home, Buffer), "a carried tile is in scratch"
    return home


class _Row:
    """The indices of one row, all axes but two being `at` some place."""

    def __init__(self, kernel: KernelGenerator, op: Op, placed: Placed, at: Mapping[int, Coordinate]) -> None:
        self.kernel, self.b, self.op, self.placed, self.at = kernel, kernel.b, op, placed, at
        self.element = element_of(op.result.type)
        self.length = placed.shape[placed.axis]
        widest = max(element_bytes(self.element), 4)
        self.width = max(2, min(kernel.options.vector_bits // 8 // widest, self.length))
        # What is moved together: places, and above PLACE_BITS which of the values belongs there. The values stay in
        # their order, so that only one store of a chunk may go across two lines of the cache, which takes long.
        self.found = kernel.memory.scratch_pointer(kernel.reserve((self.length + self.width) * 4))
        self.values = kernel.memory.scratch_pointer(kernel.reserve(self.length * element_bytes(self.element)))

    def add_to(self, row: Val, first: Val, stride: int) -> None:
        """Combines all values with the places from `row` on, `stride` elements apart, that count up from `first`."""
        b, placed = self.b, self.placed
        total = self._all_moved_together(first)
        loop = b.open_loop(0, self.length, 1)
        found = self._load(self._at(self.found, "i32", loop.iv), "i32")
        which = b.cast("zext", b.binary("lshr", found, b.constant("i32", PLACE_BITS)), "i64")
        value = self._load(self._at(self.values, self.element, which), self.element)
        place = b.cast("zext", b.binary("and", found, b.constant("i32", (1 << PLACE_BITS) - 1)), "i64")
        target = self._at(row, self.element, b.binary("mul", place, b.constant("i64", stride)))
        after = value if placed.rising else self._combined(self._load(target, self.element), value)
        b.line(f"store {after}, {target}")
        b.close_guarded(loop, total)

    def _all_moved_together(self, first: Val) -> Val:
        """How many lie within the places and are moved together."""
        b, width, length = self.b, self.width, self.length
        loop = b.open_loop(0, length, width)
        count = b.phi(loop, b.constant("i64", 0))
        if not is_worth_two_loops(self.kernel.options, length, width):
            moved = self._move_together(loop.iv, count, first)
            b.close_loop(loop, [moved])
            return moved
        with whole_chunks(self.kernel.elementwise.lanes, loop, width) as seen:
            moved = self._move_together(loop.iv, count, first)
        if not seen.ends:
            b.close_loop(loop, [moved])
            return moved
        whole, some = seen.bounds(0, length, width, width)
        (moved,) = b.close_guarded(loop, whole, [moved])
        if not never_holds(self.kernel, self._conditions, seen.off):
            some = b.constant("i64", length)
        loop = b.open_loop(0, length, width, whole)
        count = b.phi(loop, moved)
        (moved,) = b.close_guarded(loop, some, [self._move_together(loop.iv, count, first)])
        return moved

    @property
    def _conditions(self) -> list[Value]:
        return self.op.operands[3 + self.placed.into :]

    def _combined(self, before: Val, value: Val) -> Val:
        elementwise = self.kernel.elementwise
        if self.placed.combine == "arith.maximumf":
            return elementwise.float_extremum("maximum", before, value)
        if self.placed.combine == "arith.addf":
            return elementwise.float_binary("fadd", before, value)
        return self.b.binary("add", before, value)

    def _move_together(self, start: Val, count: Val, first: Val) -> Val:
        """Stores the places from the index `start` on that count, behind the `count` that are stored, and the values.

        Returns how many places are stored then.
        """
        b, width, placed = self.b, self.width, self.placed
        lanes = self.kernel.elementwise.lanes
        index, value, conditions = self.op.operands[0], self.op.operands[2], self._conditions
        frame = Frame(self.kernel, width)
        coordinates = [self.at.get(axis, frame.maps.zero) for axis in range(len(placed.shape))]
        coordinates[placed.axis] = Index(start, 1, "i64")
        narrow = [c if d > 1 else frame.maps.zero for c, d in zip(coordinates, shape_of(index.type))]
        found = lanes.vector(frame.evaluate(index, tuple(narrow)), width)
        place = b.binary("sub", found, b.splat(first, width))
        inside = b.compare("icmp ult", place, b.constant(place.element, placed.shape[placed.place], width))
        near = b.select(inside, place, b.constant(place.element, 0, width))
        wide = near if BITS[place.element] == 64 else b.cast("zext", near, "i64")
        coordinates[placed.place] = Vector(wide)
        for condition in conditions:
            inside = b.binary("and", inside, lanes.vector(frame.evaluate(condition, tuple(coordinates)), width))
        values = lanes.vector(frame.evaluate(value, tuple(coordinates)), width)
        b.line(f"store {values}, {self._at(self.values, self.element, start)}, align {element_bytes(self.element)}")
        short = place if BITS[place.element] == 32 else b.cast("trunc", place, "i32")
        from_start = b.splat(b.binary("shl", b.cast("trunc", start, "i32"), b.constant("i32", PLACE_BITS)), width)
        number = b.binary("add", from_start, b.iota("i32", width, 1 << PLACE_BITS))
        found = b.binary("or", number, short)
        return (self._compressed if self.kernel.options.compresses else self._one_by_one)(inside, count, found)

    def _compressed(self, inside: Val, count: Val, found: Val) -> Val:
        """By an instruction of the host."""
        b, width = self.b, self.width
        none = b.constant("i32", 0, width)
        together = b.intrinsic("experimental.vector.compress", ("i32", width), (found, inside, none))
        b.line(f"store {together}, {self._at(self.found, 'i32', count)}, align 4")
        mask = b.fresh("%inside")
        b.declare(f"declare i{width} @llvm.ctpop.i{width}(i{width})")
        b.line(f"{mask} = bitcast {inside} to i{width}")
        b.line(f"{mask}.some = call i{width} @llvm.ctpop.i{width}(i{width} {mask})")
        return b.binary("add", count, b.effect("i64", 0, f"zext i{width} {mask}.some to i64"))

    def _one_by_one(self, inside: Val, count: Val, found: Val) -> Val:
        """Each is stored, and the next one over it where it does not count."""
        b = self.b
        for lane in range(self.width):
            b.line(f"store {b.extract(found, lane)}, {self._at(self.found, 'i32', count)}")
            count = b.binary("add", count, b.cast("zext", b.extract(inside, lane), "i64"))
        return count

    def _at(self, pointer: Val, element: str, position: Val) -> Val:
        scalar = llvm_type(element, 0)
        return self.b.pure("ptr", 0, f"getelementptr {scalar}, {pointer}, {position}", pointer, position)

    def _load(self, pointer: Val, element: str) -> Val:
        return self.b.effect(element, 0, f"load {llvm_type(element, 0)}, {pointer}")


__all__ = ["emit_placed", "place_values"]

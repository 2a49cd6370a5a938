"""Sums of what is zero but at one place: `sum(where(index == place, value, 0))` adds each value where its index says.

A kernel for Ascend compares all indices with all places of a row (graph pass `short_scatters`), since the chip's scalar
core takes long for each address. The host adds `value` to the element of the result that `index` names: as many
additions as there are indices, whatever the row's length.

`place_sums` finds such sums before code is planned; `emit_placed_sum` writes one. Chunks of indices are compared with
the bounds of the tile's places and what lies within is moved together, so that the loop over it has no branch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..host_functions import PLACED_SUM
from ..ttir.ir import Block, Dense, Function, Op, TensorType, Value, splat_number
from .coordinates import Coordinate
from .frame import Frame, row_major
from .lanes import Index, Vector
from .memory import Buffer
from .types import BITS, element_bytes, element_of, is_float, llvm_type, shape_of

if TYPE_CHECKING:
    from .builder import Val
    from .kernel import KernelGenerator

FEWEST_PLACES = 32  # for fewer, comparing all takes no more time
_SUMS = {"arith.addf", "arith.addi"}


@dataclass(frozen=True)
class Placed:
    """A tile of `shape` that is zero where the index differs from the place along axis `place`, to be added up along
    `axis`. Operands of the operation: the index, whose extent along `place` is 1; the places, one axis that counts up;
    the value; with `into` a tile that the sums are added to, where it is; conditions, where one of them is off the
    tile is zero, too.
    """

    shape: tuple[int, ...]
    axis: int
    place: int
    into: bool = False


# -- what is one -----------------------------------------------------------------------------------------------------
def place_sums(function: Function) -> None:
    """Makes operations PLACED_SUM of the sums of `function` that are such, in place; of those that a loop carries as
    tiles, the loop then carries the sums.
    """
    users: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in function.body.walk():
        for operand in op.operands:
            users[operand].append(op)
    _visit(function.body, function.body, users)


def _visit(block: Block, function: Block, users: dict[Value, list[Op]]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions if op.name in ("scf.for", "scf.if", "scf.while") else ():
            _visit(region, function, users)
        if _is_sum(op):
            placed = _placed(op.operands[0], op.attrs["axis"])
            if placed is not None:
                op.operands, op.attrs = placed[1], {"placed": placed[0]}
                op.name, op.regions = PLACED_SUM, []
            elif _sink_into_loop(op, ops, function, users):
                continue
        ops.append(op)
    block.ops = ops


def _is_sum(op: Op) -> bool:
    if op.name != "tt.reduce" or len(op.operands) != 1 or len(shape_of(op.operands[0].type)) < 2:
        return False
    combine = op.regions[0].ops
    return len(combine) == 2 and combine[0].name in _SUMS and set(combine[0].operands) == set(op.regions[0].arguments)


def _sink_into_loop(sum_: Op, before: list[Op], function: Block, users: dict[Value, list[Op]]) -> bool:
    """Whether `sum_` was of a tile that a loop among `before` adds up, from zeros: the loop then adds up sums."""
    source, axis = sum_.operands[0], sum_.attrs["axis"]
    loop = source.owner
    if loop is None or loop.name != "scf.for" or loop not in before or users[source] != [sum_]:
        return False
    body = loop.regions[0]
    argument, initial = body.arguments[1 + source.index], loop.operands[3 + source.index]
    adding = body.ops[-1].operands[source.index].owner
    if adding is None or adding.name not in _SUMS or adding not in body.ops or splat_number(initial) != 0:
        return False
    if users[argument] != [adding] or users[adding.result] != [body.ops[-1]] or argument not in adding.operands:
        return False
    term = adding.operands[adding.operands[0] is argument]
    placed = _placed(term, axis)
    if placed is None or not isinstance(sum_.result.type, TensorType):
        return False
    type_ = sum_.result.type
    zeros = Op("arith.constant", [], [], {"value": Dense(0.0 if is_float(element_of(type_)) else 0)}, [], loop.line)
    zeros.results = [Value("%zeros", type_, zeros)]
    kind, (index, places, value, *conditions) = placed
    adding.name, adding.operands = PLACED_SUM, [index, places, value, argument, *conditions]
    adding.attrs = {"placed": replace(kind, into=True)}
    loop.operands[3 + source.index] = zeros.result
    for value in (argument, adding.result, source):
        value.type = type_
    for user in function.walk():
        user.operands = [source if operand is sum_.result else operand for operand in user.operands]
    return True


def _placed(tile: Value, axis: int) -> tuple[Placed, list[Value]] | None:
    """How `tile` is to be added up along `axis` place by place, and the operands for that."""
    shape = shape_of(tile.type)
    conditions: list[Value] = []
    if element_of(tile.type) == "i1":
        return None
    while tile.owner is not None and tile.owner.name == "arith.select" and splat_number(tile.owner.operands[2]) == 0:
        condition, tile, _ = tile.owner.operands
        terms = _terms(condition)
        for number, term in enumerate(terms):
            found = _index_and_place(term, shape, axis)
            if found is not None:
                index, places, place = found
                conditions += [*terms[:number], *terms[number + 1 :]]
                return Placed(shape, axis, place), [index, places, tile, *conditions]
        conditions += terms
    return None


def _terms(condition: Value) -> list[Value]:
    """What has to hold for `condition` to hold."""
    op = condition.owner
    return [condition] if op is None or op.name != "arith.andi" else [t for o in op.operands for t in _terms(o)]


def _index_and_place(condition: Value, shape: tuple[int, ...], axis: int) -> tuple[Value, Value, int] | None:
    """The index, the places and their axis, where `condition` is their comparison."""
    op = condition.owner
    if op is None or op.name != "arith.cmpi" or op.attrs["predicate"] != "eq" or shape_of(condition.type) != shape:
        return None
    sources = [
        o.owner.operands[0] if o.owner is not None and o.owner.name == "tt.broadcast" else o for o in op.operands
    ]
    for index, places in (sources, sources[::-1]):
        extents = shape_of(places.type)
        longer = [here for here, extent in enumerate(extents) if extent > 1]
        if len(longer) != 1 or longer[0] == axis or extents[longer[0]] < FEWEST_PLACES:
            continue
        (place,) = longer
        counted = _one_axis(places)
        known = element_of(index.type) in ("i32", "i64")
        if known and shape_of(index.type)[place] == 1 and counted is not None:
            return index, counted, place
    return None


def _one_axis(value: Value) -> Value | None:
    """`value`, which has one axis of more than one element, without the others, if its numbers count up by 1."""
    op = value.owner
    while op is not None and op.name in ("tt.expand_dims", "tt.reshape"):
        value = op.operands[0]
        op = value.owner
    return value if len(shape_of(value.type)) == 1 and _counts_up(value) else None


def _counts_up(value: Value) -> bool:
    op = value.owner
    if op is None or op.name == "tt.make_range":
        return op is not None
    if op.name != "arith.addi":
        return False
    left, right = op.operands
    return (_counts_up(left) and _is_splat(right)) or (_counts_up(right) and _is_splat(left))


def _is_splat(value: Value) -> bool:
    return value.owner is not None and (value.owner.name == "tt.splat" or splat_number(value) is not None)


# -- its code --------------------------------------------------------------------------------------------------------
def emit_placed_sum(kernel: KernelGenerator, op: Op) -> None:
    """Writes `op`; its result is kept in scratch, row-major."""
    placed: Placed = op.attrs["placed"]
    b = kernel.b
    kernel.work += math.prod(placed.shape) // placed.shape[placed.place] * 4
    home = _summed_into(kernel, op) if placed.into else _zeros(kernel, op)
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


def _zeros(kernel: KernelGenerator, op: Op) -> Buffer:
    b, shape, element = kernel.b, shape_of(op.result.type), element_of(op.result.type)
    home = kernel.allocate(shape, element, row_major(shape))
    b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    size = math.prod(shape) * element_bytes(element)
    b.line(f"call void @llvm.memset.p0.i64({kernel.memory.scratch_pointer(home.offset)}, i8 0, i64 {size}, i1 false)")
    return home


def _summed_into(kernel: KernelGenerator, op: Op) -> Buffer:
    """Where a loop keeps the tile that it adds up, which nobody but `op` reads in a round of it."""
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
        room = self.length + self.width
        self.places = kernel.memory.scratch_pointer(kernel.reserve(room * 4))
        self.values = kernel.memory.scratch_pointer(kernel.reserve(room * widest))

    def add_to(self, row: Val, first: Val, stride: int) -> None:
        """Adds all values to the places from `row` on, `stride` elements apart, that count up from `first`."""
        b = self.b
        loop = b.open_loop(0, self.length, self.width)
        count = b.phi(loop, b.constant("i64", 0))
        total = self._move_together(loop.iv, count, first)
        b.close_loop(loop, [total])
        loop = b.open_loop(0, self.length, 1)
        place = self._load(self._slot(self.places, "i32", loop.iv), "i32")
        value = self._load(self._slot(self.values, self.element, loop.iv), self.element)
        wide = b.cast("zext", place, "i64")
        target = self._element(row, self.element, b.binary("mul", wide, b.constant("i64", stride)))
        before = self._load(target, self.element)
        if is_float(self.element):
            after = self.kernel.elementwise.float_binary("fadd", before, value)
        else:
            after = b.binary("add", before, value)
        b.line(f"store {after}, {target}")
        b.close_guarded(loop, total)

    def _move_together(self, start: Val, count: Val, first: Val) -> Val:
        """Stores the places and values from the index `start` on that count, behind the `count` that are stored."""
        b, width, placed = self.b, self.width, self.placed
        lanes = self.kernel.elementwise.lanes
        index, _, value, *conditions = self.op.operands
        conditions = conditions[placed.into :]
        frame = Frame(self.kernel, width)
        coordinates = [self.at.get(axis, frame.maps.zero) for axis in range(len(placed.shape))]
        coordinates[placed.axis] = Index(start, 1, "i64")
        narrow = [c if d > 1 else frame.maps.zero for c, d in zip(coordinates, shape_of(index.type))]
        found = lanes.vector(frame.evaluate(index, tuple(narrow)), width)
        place = b.binary("sub", found, b.splat(first, width))
        inside = b.compare("icmp ult", place, b.constant(place.element, placed.shape[placed.place], width))
        place = b.select(inside, place, b.constant(place.element, 0, width))
        wide = place if BITS[place.element] == 64 else b.cast("zext", place, "i64")
        coordinates[placed.place] = Vector(wide)
        for condition in conditions:
            inside = b.binary("and", inside, lanes.vector(frame.evaluate(condition, tuple(coordinates)), width))
        values = lanes.vector(frame.evaluate(value, tuple(coordinates)), width)
        short = place if BITS[place.element] == 32 else b.cast("trunc", place, "i32")
        if self.kernel.options.compresses:
            return self._compressed(inside, count, short, values)
        return self._one_by_one(inside, count, short, values)

    def _compressed(self, inside: Val, count: Val, places: Val, values: Val) -> Val:
        """By an instruction of the host. It is given whole numbers: of others LLVM 22 cannot make code everywhere."""
        b, width = self.b, self.width
        for pointer, vector in ((self.places, places), (self.values, values)):
            bits = BITS[vector.element]
            whole = b.retype(vector, f"i{bits}") if bits > 1 else vector
            whole = whole if bits >= 32 else b.cast("zext", whole, "i32")
            none = b.constant(whole.element, 0, width)
            together = b.intrinsic("experimental.vector.compress", (whole.element, width), (whole, inside, none))
            target = self._slot(pointer, vector.element, count)
            b.line(f"store {together}, {target}, align {element_bytes(whole.element)}")
        mask = b.fresh("%inside")
        b.declare(f"declare i{width} @llvm.ctpop.i{width}(i{width})")
        b.line(f"{mask} = bitcast {inside} to i{width}")
        b.line(f"{mask}.some = call i{width} @llvm.ctpop.i{width}(i{width} {mask})")
        return b.binary("add", count, b.effect("i64", 0, f"zext i{width} {mask}.some to i64"))

    def _one_by_one(self, inside: Val, count: Val, places: Val, values: Val) -> Val:
        """Each is stored, and the next one over it where it does not count."""
        b = self.b
        for lane in range(self.width):
            for pointer, vector in ((self.places, places), (self.values, values)):
                b.line(f"store {b.extract(vector, lane)}, {self._slot(pointer, vector.element, count)}")
            count = b.binary("add", count, b.cast("zext", b.extract(inside, lane), "i64"))
        return count

    def _slot(self, pointer: Val, element: str, position: Val) -> Val:
        """Where what is moved together lies, in 4 bytes at least."""
        return self._element(pointer, "i64" if BITS[element] == 64 else "i32", position)

    def _element(self, pointer: Val, element: str, position: Val) -> Val:
        scalar = llvm_type(element, 0)
        return self.b.pure("ptr", 0, f"getelementptr {scalar}, {pointer}, {position}", pointer, position)

    def _load(self, pointer: Val, element: str) -> Val:
        return self.b.effect(element, 0, f"load {llvm_type(element, 0)}, {pointer}")


__all__ = ["emit_placed_sum", "place_sums"]

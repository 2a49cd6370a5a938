"""One-hot scatters. Chunks of indices are compared with the bounds of the tile's places, the indices within are packed,
and a loop over them, without branches, adds each value at its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ttir.ir import Op, Value
from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinate
from ..forms.lane import Index, Uniform, Vector
from ..forms.scratch import Buffer, row_major
from ..forms.types import BITS, element_bytes, element_of, llvm_type, shape_of
from ..forms.value import Val
from ..nests.loop_splitting import is_worth_two_loops, whole_chunks
from ..planning.masked_off import never_holds
from ..rewriting.one_hot_scatter import PLACE_BITS, OneHotScatter


def emit_one_hot_scatter(context: CodegenContext, op: Op) -> None:
    """Writes `op`; its result is kept in scratch, row-major."""
    scatter: OneHotScatter = op.attrs["scatter"]
    b = context.b
    context.work += math.prod(scatter.shape) // scatter.shape[scatter.place] * 4
    home = _carried(context, op) if scatter.into else _nothing_placed(context, op)
    evaluator = ChunkEvaluator(context, 0)
    first = context.lanes.scalar(evaluator.evaluate(op.operands[1], (evaluator.maps.zero,)))
    at: dict[int, Index] = {}
    loops = []
    for axis, extent in enumerate(scatter.shape):
        if axis not in (scatter.axis, scatter.place) and extent > 1:
            loops.append(b.open_loop(0, extent, 1))
            at[axis] = Index(loops[-1].iv, 0, "i64")
    here = [a for a in range(len(scatter.shape)) if a != scatter.axis]
    row = context.memory.buffer_address(home, [evaluator.maps.value(at.get(a, evaluator.maps.zero)) for a in here], 0)
    stride = home.strides[here.index(scatter.place)]
    _Row(context, op, scatter, at).add_to(context.lanes.scalar(row), first, stride)
    for loop in reversed(loops):
        b.close_loop(loop)
    context.places[op.result] = home


def _nothing_placed(context: CodegenContext, op: Op) -> Buffer:
    """A tile of results before anything is added."""
    b, shape, element = context.b, shape_of(op.result.type), element_of(op.result.type)
    home = context.scratch.allocate(shape, element, row_major(shape))
    first, size = op.attrs["scatter"].first, math.prod(shape)
    if first == 0:
        b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        bytes_ = size * element_bytes(element)
        pointer = context.memory.scratch_pointer(home.offset)
        b.line(f"call void @llvm.memset.p0.i64({pointer}, i8 0, i64 {bytes_}, i1 false)")
        return home
    width = context.options.vector_bits // 8 // element_bytes(element)
    width = width if size % width == 0 else 1
    loop = b.open_loop(0, size, width)
    flat = Buffer(home.offset, (size,), (1,), element)
    at = context.memory.buffer_address(flat, [Index(loop.iv, 1, "i64")], width)
    context.memory.store(at, Uniform(b.constant(element, first)), None, element, width)
    b.close_loop(loop)
    return home


def _carried(context: CodegenContext, op: Op) -> Buffer:
    """Where a loop keeps the tile of results, which nobody but `op` reads in a round of it."""
    home = context.places[op.operands[3]]
    assert isinstance(home, Buffer), "a carried tile is in scratch"
    return home


class _Row:
    """The indices of one row, all axes but two being `at` some place."""

    def __init__(self, context: CodegenContext, op: Op, scatter: OneHotScatter, at: Mapping[int, Coordinate]) -> None:
        self.context, self.b, self.op, self.scatter, self.at = context, context.b, op, scatter, at
        self.element = element_of(op.result.type)
        self.length = scatter.shape[scatter.axis]
        widest = max(element_bytes(self.element), 4)
        self.width = max(2, min(context.options.vector_bits // 8 // widest, self.length))
        # What is moved together: places, and above PLACE_BITS which of the values belongs there. The values stay in
        # their order, so that only one store of a chunk may go across two lines of the cache, which takes long.
        self.found = context.memory.scratch_pointer(context.scratch.reserve((self.length + self.width) * 4))
        self.values = context.memory.scratch_pointer(context.scratch.reserve(self.length * element_bytes(self.element)))

    def add_to(self, row: Val, first: Val, stride: int) -> None:
        """Combines all values with the places from `row` on, `stride` elements apart, that count up from `first`."""
        b, scatter = self.b, self.scatter
        total = self._all_moved_together(first)
        loop = b.open_loop(0, self.length, 1)
        found = self._load(self._at(self.found, "i32", loop.iv), "i32")
        which = b.cast("zext", b.binary("lshr", found, b.constant("i32", PLACE_BITS)), "i64")
        value = self._load(self._at(self.values, self.element, which), self.element)
        place = b.cast("zext", b.binary("and", found, b.constant("i32", (1 << PLACE_BITS) - 1)), "i64")
        target = self._at(row, self.element, b.binary("mul", place, b.constant("i64", stride)))
        after = value if scatter.rising else self._combined(self._load(target, self.element), value)
        b.line(f"store {after}, {target}")
        b.close_guarded(loop, total)

    def _all_moved_together(self, first: Val) -> Val:
        """How many lie within the places and are moved together."""
        b, width, length = self.b, self.width, self.length
        loop = b.open_loop(0, length, width)
        count = b.phi(loop, b.constant("i64", 0))
        if not is_worth_two_loops(self.context.options, length, width):
            moved = self._move_together(loop.iv, count, first)
            b.close_loop(loop, [moved])
            return moved
        with whole_chunks(self.context.lanes, loop, width) as seen:
            moved = self._move_together(loop.iv, count, first)
        if not seen.ends:
            b.close_loop(loop, [moved])
            return moved
        whole, some = seen.bounds(0, length, width, width)
        (moved,) = b.close_guarded(loop, whole, [moved])
        if not never_holds(self._conditions, self.context.places, seen.off):
            some = b.constant("i64", length)
        loop = b.open_loop(0, length, width, whole)
        count = b.phi(loop, moved)
        (moved,) = b.close_guarded(loop, some, [self._move_together(loop.iv, count, first)])
        return moved

    @property
    def _conditions(self) -> list[Value]:
        return self.op.operands[3 + self.scatter.into :]

    def _combined(self, before: Val, value: Val) -> Val:
        if self.scatter.combine == "arith.maximumf":
            return self.context.floats.extremum("maximum", before, value)
        if self.scatter.combine == "arith.addf":
            return self.context.floats.binary("fadd", before, value)
        return self.b.binary("add", before, value)

    def _move_together(self, start: Val, count: Val, first: Val) -> Val:
        """Stores the places from the index `start` on that count, behind the `count` that are stored, and the values.

        Returns how many places are stored then.
        """
        b, width, scatter = self.b, self.width, self.scatter
        lanes = self.context.lanes
        index, value, conditions = self.op.operands[0], self.op.operands[2], self._conditions
        evaluator = ChunkEvaluator(self.context, width)
        coordinates = [self.at.get(axis, evaluator.maps.zero) for axis in range(len(scatter.shape))]
        coordinates[scatter.axis] = Index(start, 1, "i64")
        narrow = [c if d > 1 else evaluator.maps.zero for c, d in zip(coordinates, shape_of(index.type))]
        found = lanes.vector(evaluator.evaluate(index, tuple(narrow)), width)
        place = b.binary("sub", found, b.splat(first, width))
        inside = b.compare("icmp ult", place, b.constant(place.element, scatter.shape[scatter.place], width))
        near = b.select(inside, place, b.constant(place.element, 0, width))
        wide = near if BITS[place.element] == 64 else b.cast("zext", near, "i64")
        coordinates[scatter.place] = Vector(wide)
        for condition in conditions:
            inside = b.binary("and", inside, lanes.vector(evaluator.evaluate(condition, tuple(coordinates)), width))
        values = lanes.vector(evaluator.evaluate(value, tuple(coordinates)), width)
        b.line(f"store {values}, {self._at(self.values, self.element, start)}, align {element_bytes(self.element)}")
        short = place if BITS[place.element] == 32 else b.cast("trunc", place, "i32")
        from_start = b.splat(b.binary("shl", b.cast("trunc", start, "i32"), b.constant("i32", PLACE_BITS)), width)
        number = b.binary("add", from_start, b.iota("i32", width, 1 << PLACE_BITS))
        found = b.binary("or", number, short)
        return (self._compressed if self.context.options.compresses else self._one_by_one)(inside, count, found)

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

"""Operands of products, packed as `mathlib/products.py` says, read once along the axis that is contiguous in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ...mathlib import PackedProduct
from ...ttir.ir import Op, Value
from ..analysis.operations import is_tensor
from ..analysis.tile_extents import Extents
from ..emit.builder import Loop
from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinate
from ..forms.lane import Address, Index, Lane, Prefix
from ..forms.scratch import Buffer, row_major
from ..forms.types import element_bytes, element_of, llvm_type, shape_of
from ..forms.value import Val
from ..nests.loop_splitting import is_worth_two_loops, whole_chunks
from ..nests.materialise import keep
from ..nests.transpose import transposed
from ..planning.steps import Group, KeptRoot
from ..planning.vector_axis import vector_axis
from .branches import when

FEWEST_TRANSPOSED = 4  # columns of a block that is transposed in registers
# Rows of memory between what is read and what is asked for meanwhile: a row of a tile is too short for the processor to
# guess what follows.
AHEAD = 4
OFFSET = -128  # added to A's i8: the same bits as 128 added to them as unsigned numbers


def emit_pack(context: CodegenContext, op: Op) -> None:
    """Writes the operand of a product into scratch; the shape of its buffer says how it lies."""
    writer = Packing(context, op)
    value, product = op.operands[0], writer.product
    shape = shape_of(value.type)
    axis = vector_axis(Group([KeptRoot(value, shape)], shape), context.places, context.facts.strides)
    along_k = axis == writer.k_axis
    home = context.places.get(value)
    if writer.is_left and along_k:
        if isinstance(home, Buffer) and home.strides == row_major(shape) and not product.a_is_offset:
            context.places[op.result] = home
            return
        writer.by_rows()
    elif not writer.is_left and along_k and writer.side >= FEWEST_TRANSPOSED:
        if home is None and writer.addresses is None:  # computed: not once more for each column of a block
            keep(context, [KeptRoot(value, shape)])
        writer.transposed()
    else:
        writer.interleaved()
    context.places[op.result] = writer.buffer


def extent(context: CodegenContext, conditions: Sequence[tuple[Value, int]], size: int, either: bool = False) -> Val:
    """How many of `size` positions matter, at least one: those before the end of all conditions, or, with `either`, of
    one.
    """
    b = context.b
    evaluator = ChunkEvaluator(context, size)
    ends = []
    for condition, _ in conditions if size > 1 else ():
        along = max(range(2), key=shape_of(condition.type).__getitem__)
        at: list[Coordinate] = [evaluator.maps.zero, evaluator.maps.zero]
        at[along] = Index(b.constant("i64", 0), 1, "i64")
        lane = evaluator.evaluate(condition, tuple(at))
        if isinstance(lane, Prefix):
            ends.append(lane.count)
    whole = b.constant("i64", size)
    if not ends or (either and len(ends) < len(conditions)):
        return whole
    end = ends[0]
    for other in ends[1:]:
        end = b.intrinsic("smax" if either else "smin", ("i64", 0), (end, other))
    end = b.intrinsic("smax", ("i64", 0), (end, b.constant("i64", 1)))
    return b.intrinsic("smin", ("i64", 0), (end, whole)).known(1, size)


def _addresses(context: CodegenContext, value: Value) -> tuple[Value | None, list[int]]:
    """The addresses that `value` is loaded from, and which of its axes each of theirs is; None where it is computed, or
    accesses are observed.
    """
    order = list(range(len(shape_of(value.type))))
    while value not in context.places and value.owner is not None:
        op = value.owner
        if op.name == "tt.load":
            plain = is_tensor(op.operands[0]) and not (context.options.record or context.options.checked)
            return (op.operands[0] if plain else None), order
        if op.name == "tt.trans":
            back = op.attrs["order"]
            order = [order[back.index(axis)] for axis in range(len(order))]
        elif op.name not in ("arith.extf", "arith.sitofp", "tt.fp_to_fp"):
            break
        value = op.operands[0]
    return None, order


class Packing:
    """Writes the loops that pack one operand."""

    def __init__(self, context: CodegenContext, op: Op) -> None:
        self.context, self.b, self.op, self.value = context, context.b, op, op.operands[0]
        self.product: PackedProduct = op.attrs["product"]
        self.is_left: bool = op.attrs["is_left"]
        extents: Extents = op.attrs["extents"]
        *self.batch, rows, columns = shape_of(self.value.type)
        self.k_axis = len(self.batch) + (1 if self.is_left else 0)
        self.size, self.k = (rows, columns) if self.is_left else (columns, rows)  # the other axis, and K
        self.used = extent(context, extents.rows if self.is_left else extents.columns, self.size)
        self.element = element_of(self.value.type)
        self.group, self.group_bytes = self.product.group, self.product.group_bytes
        self.panel = self.product.rows if self.is_left else self.product.panel
        self.side = min(self.product.lanes, self.k // self.group)
        self.addresses, self.order = _addresses(context, self.value)
        self.ahead = AHEAD  # rows that are read along K
        self.lanes = context.options.vector_bits // 8 // element_bytes(self.element)

    def _allocate(self, *shape: int) -> None:
        whole = (*self.batch, *shape)
        self.buffer = self.context.scratch.allocate(whole, self.element, row_major(whole))

    def _allocate_panels(self) -> None:
        self._allocate(self.size // self.panel, self.k // self.group, self.panel, self.group)

    # -- loops ---------------------------------------------------------------------------------------------------------
    @contextmanager
    def _batches(self) -> Iterator[list[Val]]:
        """The positions along the axes of a batch."""
        with ExitStack() as loops:
            yield [loops.enter_context(self._loop(length, 1)) for length in self.batch]

    @contextmanager
    def _loop(self, stop: int, step: int, used: Val | None = None) -> Iterator[Val]:
        """The position in a loop to `used`, which is at most `stop`; a constant where there is one step only."""
        if stop <= step:
            yield self.b.constant("i64", 0)
            return
        loop: Loop = self.b.open_loop(0, stop, step)
        yield loop.iv
        self.b.close_loop(loop, stop=used.text if used is not None else "")

    def _chunks(self, stop: int, step: int, used: Val | None, body: Callable[[Val], None]) -> None:
        """The innermost loop, to `used`: its body twice, without masks for the chunks that no mask's edge crosses."""
        if not is_worth_two_loops(self.context.options, stop, step):
            with self._loop(stop, step, used) as position:
                body(position)
            return
        end = used or self.b.constant("i64", stop)
        loop = self.b.open_loop(0, stop, step)
        with whole_chunks(self.context.lanes, loop, step) as seen:
            body(loop.iv)
        if not seen.ends:
            self.b.close_loop(loop, stop=end.text)
            return
        whole, _ = seen.bounds(0, stop, step, step)
        self.b.close_guarded(loop, self.b.intrinsic("smin", ("i64", 0), (whole, end)))
        loop = self.b.open_loop(0, stop, step, whole)
        body(loop.iv)
        self.b.close_guarded(loop, end)

    # -- chunks --------------------------------------------------------------------------------------------------------
    def read(self, width: int, batch: Sequence[Val], across: Val, k: Val, along_k: bool) -> Val:
        """`width` elements from position `across` of the other axis and step `k` on."""
        evaluator = ChunkEvaluator(self.context, width)
        coordinates = self._coordinates(batch, across, k, along_k)
        vector = self.context.lanes.vector(evaluator.evaluate(self.value, coordinates), width)
        if self.addresses is not None:
            rows, steps = (self.ahead, 0) if along_k else (0, AHEAD)
            ahead = self._coordinates(batch, self._plus(across, rows), self._plus(k, steps), along_k)
            self._prefetch(evaluator.evaluate(self.addresses, tuple(ahead[axis] for axis in self.order)))
        if self.is_left and self.product.a_is_offset:
            vector = self.b.binary("xor", vector, self.b.constant("i8", OFFSET, width))
        return vector

    def _coordinates(self, batch: Sequence[Val], across: Val, k: Val, along_k: bool) -> tuple[Coordinate, ...]:
        place = [Index(position, 0, "i64") for position in batch]
        other = Index(across, 0 if along_k else 1, "i64")
        step = Index(k, 1 if along_k else 0, "i64")
        return (*place, other, step) if self.is_left else (*place, step, other)

    def _prefetch(self, address: Lane) -> None:
        """Asks for the memory at the first lane of `address`, wherever that is."""
        if isinstance(address, Address):
            self.b.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            self.b.line(f"call void @llvm.prefetch.p0({address.pointer}, i32 0, i32 3, i32 1)")

    def _plus(self, position: Val, number: int) -> Val:
        return self.context.scalars.add(position, self.b.constant("i64", number))

    def _address(self, *terms: tuple[Val, int]) -> Val:
        """In the buffer, at the sum of positions times bytes."""
        scalars, total = self.context.scalars, self.b.constant("i64", 0)
        for position, stride in terms:
            total = scalars.add(total, scalars.multiply(position, self.b.constant("i64", stride)))
        return scalars.pointer(self.context.memory.scratch_pointer(self.buffer.offset), total, 1)

    def _batch_terms(self, batch: Sequence[Val]) -> list[tuple[Val, int]]:
        strides = row_major(self.batch)
        size = self.size * self.k * element_bytes(self.element)
        return [(position, stride * size) for position, stride in zip(batch, strides)]

    def _store(self, vector: Val, *terms: tuple[Val, int]) -> None:
        align = math.gcd(64, vector.lanes * element_bytes(vector.element))
        self.b.line(f"store {vector}, {self._address(*terms)}, align {align}")

    # -- the three ways ------------------------------------------------------------------------------------------------
    def by_rows(self) -> None:
        """[M, K], as it is read."""
        self._allocate(self.size, self.k)
        width, size = min(self.lanes, self.k), element_bytes(self.element)
        with self._batches() as batch, self._loop(self.size, 1, self.used) as row:

            def chunk(k: Val) -> None:
                vector = self.read(width, batch, row, k, along_k=True)
                self._store(vector, *self._batch_terms(batch), (row, self.k * size), (k, size))

            self._chunks(self.k, width, None, chunk)

    def interleaved(self) -> None:
        """Panels, read across K: the vectors of `group` steps are interleaved. A chunk may be several panels of A."""
        self._allocate_panels()
        chunk = self.context.options.vector_bits // 8 // self.group_bytes if self.is_left else self.panel
        chunk = min(max(chunk, self.panel), self.size)
        width = min(self.lanes, chunk)

        def panels(first: Val) -> None:
            for inner in range(0, chunk, width):
                at = self._plus(first, inner)
                rows = [self.read(width, batch, at, self._plus(k, i), False) for i in range(self.group)]
                vector, part = self._interleaved(rows), min(width, self.panel)
                for i in range(0, width, part):
                    groups = range(i * self.group, (i + part) * self.group)
                    piece = vector if part == width else self.b.shuffle(vector, groups)
                    self._store(piece, *self._place(batch, first, inner + i, k))

        with self._batches() as batch, self._loop(self.k, self.group) as k:
            self._chunks(self.size, chunk, self.used, panels)

    def _interleaved(self, rows: list[Val]) -> Val:
        """The first elements of all rows, then the second ones, ..."""
        unit = 1
        while len(rows) > 1:
            lanes = rows[0].lanes
            order = [
                part * lanes + block * unit + i
                for block in range(lanes // unit)
                for part in (0, 1)
                for i in range(unit)
            ]
            rows = [self.b.shuffle(rows[i], order, rows[i + 1]) for i in range(0, len(rows), 2)]
            unit *= 2
        return rows[0]

    def transposed(self) -> None:
        """Panels, read along K: blocks of groups are transposed in registers."""
        self._allocate_panels()
        side, width = self.side, self.side * self.group
        self.ahead = side
        several = self._several_rows()
        if several is not None:
            with when(self.context, several):
                self._transpose(side, width)
        else:
            self._transpose(side, width)

    def _several_rows(self) -> Val | None:
        """Whether A has more rows than one that matter; else B need not be packed (`single_row.py`). None where it must
        be anyway.
        """
        product, left = self.product, self.context.places.get(self.op.attrs["left"])
        by_rows = isinstance(left, Buffer) and len(left.shape) == 2
        if not by_rows or self.addresses is None or self.k < self.lanes or product.accumulator != product.sums:
            return None
        rows = extent(self.context, self.op.attrs["extents"].rows, product.m)
        if rows.constant is not None:
            return None
        self.op.attrs["may_be_left_out"] = True
        return self.b.compare("icmp sgt", rows, self.b.constant("i64", 1))

    def _transpose(self, side: int, width: int) -> None:

        def block(k: Val) -> None:
            at = [self._plus(first, i) for i in range(side)]
            columns = [self._groups(self.read(width, batch, column, k, along_k=True)) for column in at]
            for step, row in enumerate(transposed(self.context, columns)):
                self._store(row, *self._place(batch, first, 0, self._plus(k, step * self.group)))

        with self._batches() as batch, self._loop(self.size, side, self.used) as first:
            self._chunks(self.k, width, None, block)

    def _place(self, batch: Sequence[Val], first: Val, inner: int, k: Val) -> list[tuple[Val, int]]:
        """Where the group of step `k` lies of the column, or of A the row, `inner` behind `first`."""
        of_line, of_step = self.k // self.group * self.group_bytes, self.panel * self.group_bytes
        panel, within = (
            self.b.constant("i64", inner // self.panel * self.panel),
            self.b.constant("i64", inner % self.panel),
        )
        if first.divisor % self.panel:  # within a panel
            within = self.context.scalars.remainder(first, self.b.constant("i64", self.panel))
            first = self.context.scalars.subtract(first, within)
        return [
            *self._batch_terms(batch),
            (first, of_line),
            (panel, of_line),
            (k, of_step // self.group),
            (within, self.group_bytes),
        ]

    def _groups(self, vector: Val) -> Val:
        """A vector of groups, as integers where they are several elements."""
        if self.group == 1:
            return vector
        lanes = vector.lanes // self.group
        return self.b.pure("i32", lanes, f"bitcast {vector} to {llvm_type('i32', lanes)}", vector)

"""How a kernel's axes become tiles: which are dimensions of a tile, in which order, and how long its blocks are.

The choice needs no timing and no compiler. Its rules, in the order in which they are applied:

1. an axis that some address needs one at a time (a `//` or `%` that no split removes; an index loaded from memory,
   where what it leads to is a row) is *walked*: a scalar loop variable, not a dimension of the tile;
2. the innermost dimension is the axis along which most bytes lie side by side in memory;
3. reduced axes are whole in the tile if that fits the Unified Buffer (one pass over memory), else read in a loop;
4. other axes along which some access is contiguous come next (an on-chip transpose wants both long), then the rest from
   the innermost outwards, until the tile is full;
5. no tile is so large that cores stay idle, as long as it is worth a program of its own;
6. no tile is shorter than one vector comparison, be the axes as short as they may;
7. neither is what is compared along some of its axes only, such as an index or a result of each row;
8. rows of what is picked by loaded indices, moved in less than 32 bits, or under a condition fill a block on chip.

Block lengths are powers of two, which every Triton accepts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu.target import NpuTarget

# Rows that a reduction takes together, so that row results are vectors rather than single values.
_LEAST_ROWS = 2

# How much of the Unified Buffer a tile may fill, as estimated: the compiler's own temporaries need the rest.
FILLED = 0.8

# More dimensions than this cost compile time and padding without making bursts longer.
_MOST_DIMENSIONS = 3


@dataclass(frozen=True)
class AxisSummary:
    """An axis as the planner sees it: `name` is unique, `length` is what a dynamic size is expected to be."""

    name: str
    length: int
    is_reduction: bool
    is_static: bool = True


@dataclass(frozen=True)
class AccessSummary:
    """One load or store: `axes` it depends on, the axis of stride one, the axes that reach it by loaded indices; in how
    many loops it stands where reduced axes are looped over.

    `stretch`: the access goes through a span of so many elements for each of the tile, with a gather on chip; 0 for one
    that does not. `span`: by loaded indices it reads so many elements, all that they may lead to, for each index along
    the axes `rows`, and the elements of the tile are picked on chip; 0 for one that does not.
    """

    item_size: int
    axes: frozenset[str]
    contiguous: str | None
    indirect: frozenset[str]
    is_store: bool
    passes: int = 1
    stretch: int = 0
    span: int = 0
    rows: frozenset[str] = frozenset()

    def span_bytes(self, blocks: Mapping[str, int]) -> int:
        """Bytes of all that loaded indices may lead to, for a tile with these blocks."""
        return self.span * self.item_size * math.prod(blocks.get(axis, 1) for axis in self.rows)

    def footprint(self, blocks: Mapping[str, int]) -> int:
        """Bytes of Unified Buffer for a tile with these blocks: twice, because while one is computed another is moved;
        of a gather also the places, and what it gives.
        """
        items = math.prod(blocks.get(axis, 1) for axis in self.axes)
        moved = 2 * (self.span_bytes(blocks) if self.span else self.item_size * items * max(1, self.stretch))
        return moved + (items * (4 + max(4, self.item_size)) if self.stretch or self.span else 0)


# Values alive at one moment: how many items of how many bytes for which axes.
Live = Counter[tuple[frozenset[str], int]]


@dataclass(frozen=True)
class KernelSummary:
    """What a kernel does, as far as tiles are concerned. Axes are listed from the outermost inwards.

    `scans`: rows are scanned in the order of their elements. `sorts`: rows are sorted. `operations`: how many passes of
    the vector core over items of how many bytes along which axes; only the cost model reads them. `whole`: axes that
    have to be in each tile from their first to their last element. `compared`: the axes of values that are compared.
    `limited`: axes that are best in each tile as a whole, because a load begins or ends within them, or picks from rows
    along them that are shorter than a burst.
    """

    axes: Sequence[AxisSummary]
    accesses: Sequence[AccessSummary]
    live: Sequence[Live]
    scalar_axes: frozenset[str]
    scans: bool = False
    sorts: bool = False
    operations: Live = field(default_factory=Counter)
    whole: frozenset[str] = frozenset()
    compared: frozenset[frozenset[str]] = frozenset()
    limited: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TilePlan:
    """`order` are the tile's dimensions from the outermost inwards, with their `blocks`; `loops` the reduced axes of
    which a program sees one block (or, if walked, one index) at a time; every other reduced axis is whole in the tile,
    and of the pointwise axes those that are `whole`.
    """

    order: tuple[str, ...]
    blocks: dict[str, int]
    loops: tuple[str, ...]
    whole: frozenset[str] = frozenset()

    @property
    def is_persistent(self) -> bool:
        return not self.loops


def footprint(blocks: dict[str, int], work: KernelSummary) -> int:
    """Estimated bytes of Unified Buffer: each access twice (while one tile is computed the next is loaded and the last
    is stored), and the values alive at the worst moment once.

    `blocks` are the lengths along the tile's dimensions; along all others a tile has one index.
    """

    def items(axes: frozenset[str]) -> int:
        return math.prod(blocks.get(axis, 1) for axis in axes)

    buffers = sum(access.footprint(blocks) for access in work.accesses)
    values = max(
        (sum(count * size * items(axes) for (axes, size), count in live.items()) for live in work.live), default=0
    )
    return buffers + values


class _Planner:
    def __init__(self, work: KernelSummary, chip: NpuTarget, largest_tile: int, share: float) -> None:
        self.work, self.chip, self.largest_tile = work, chip, largest_tile
        self.room = chip.unified_buffer * share
        self.lengths = {axis.name: axis.length for axis in work.axes}
        self.blocks: dict[str, int] = {}

    def fits(self, **changed: int) -> bool:
        blocks = {**self.blocks, **changed}
        if any(access.span_bytes(blocks) > self.chip.largest_range for access in self.work.accesses):
            return False
        return math.prod(blocks.values()) <= self.largest_tile and footprint(blocks, self.work) <= self.room

    def tiles(self) -> int:
        """Tiles of the whole kernel with the present blocks; reduced axes make none."""
        return math.prod(
            -(-axis.length // self.blocks.get(axis.name, 1)) for axis in self.work.axes if not axis.is_reduction
        )

    def grow(self, axis: str, most: int | None = None, for_cores: bool = False) -> None:
        """Doubles the block of `axis` while it is shorter than the axis, fits, and if asked leaves all cores a tile."""
        self.blocks.setdefault(axis, 1)
        while self.blocks[axis] < min(self.lengths[axis], most or self.lengths[axis]):
            if not self.fits(**{axis: self.blocks[axis] * 2}):
                return
            is_worth_a_program = math.prod(self.blocks.values()) >= self.chip.smallest_tile
            if for_cores and is_worth_a_program and self.tiles() < 2 * self.chip.vector_cores:
                return
            self.blocks[axis] *= 2


def rows_by_index(work: KernelSummary, shortest_row: int) -> frozenset[str]:
    """The axes that only say which row is meant, by way of a loaded index: each row of at least `shortest_row` elements
    is read by itself.
    """
    lengths = {axis.name: axis.length for axis in work.axes}
    scalar_axes: set[str] = set()
    for access in work.accesses:
        row = access.contiguous
        if access.indirect and row is not None and row not in access.indirect and lengths[row] >= shortest_row:
            scalar_axes |= access.indirect
    return frozenset(scalar_axes)


def innermost(work: KernelSummary, among: Sequence[str]) -> str | None:
    """Rule 2: the axis along which most bytes are contiguous; of equals the innermost."""
    lengths = {axis.name: axis.length for axis in work.axes}
    votes = dict.fromkeys(among, 0)
    for access in work.accesses:
        if access.contiguous in votes:
            votes[access.contiguous] += access.item_size * math.prod(lengths[axis] for axis in access.axes)
    if not votes:
        return None
    return max(votes, key=lambda axis: (votes[axis], among.index(axis)))


def plan_tile(work: KernelSummary, chip: NpuTarget, largest_tile: int, share: float = FILLED) -> TilePlan:
    """Chooses the tile of a kernel: at most `largest_tile` elements, estimated to fill at most `share` of the Unified
    Buffer (the compiler's own temporaries need the rest).
    """
    scalar_axes = _in_order(work, work.scalar_axes | rows_by_index(work, chip.shortest_row).difference(work.whole))
    pointwise = [axis.name for axis in work.axes if not axis.is_reduction and axis.name not in scalar_axes]
    reduction = [axis.name for axis in work.axes if axis.is_reduction and axis.name not in scalar_axes]
    walked_reductions = [axis.name for axis in work.axes if axis.is_reduction and axis.name in scalar_axes]
    inner = innermost(work, [*pointwise, *reduction])
    if inner is None:
        return TilePlan((), {}, tuple(walked_reductions))
    planner = _Planner(work, chip, largest_tile, share)
    # A transposing tile reads along one axis and writes along another: along both a vector instruction fills up.
    side = chip.compared_at_once(4)
    contiguous = {access.contiguous for access in work.accesses if len(access.axes) > 1}
    crossed = [axis for axis in reversed(pointwise) if axis in contiguous and axis != inner]

    for axis in (name for name in planner.lengths if name in work.whole):
        planner.grow(axis)
    if inner in pointwise:  # rows side by side are read as wide as a burst
        planner.grow(inner, most=side if reduction or crossed else None, for_cores=not reduction)
    loops = _reduced(planner, pointwise[-1] if pointwise and inner in reduction else None, reduction)
    loops += walked_reductions
    # Rules 4 and 5.
    for axis in crossed:
        planner.grow(axis, most=side)
    for axis in [inner, *crossed, *reversed(pointwise)]:
        dimensions = {name for name, block in planner.blocks.items() if block > 1}
        if axis in pointwise and (axis in dimensions or len(dimensions) < _MOST_DIMENSIONS):
            planner.grow(axis, for_cores=True)
    return _arranged(planner, inner, pointwise, reduction, loops, [axis.name for axis in work.axes])


def _in_order(work: KernelSummary, scalar_axes: frozenset[str]) -> frozenset[str]:
    """The axes to be walked where rows are scanned or sorted.

    A scan goes through its reduced axes like a loop nest: no axis of the tile is outside of one that is walked, and one
    axis is all that a tile can be scanned along. A sort needs its whole row at once.
    """
    reduced = [axis.name for axis in work.axes if axis.is_reduction]
    if work.sorts:
        return scalar_axes.difference(reduced)
    return scalar_axes.union(reduced[:-1]) if work.scans else scalar_axes


def _reduced(planner: _Planner, rows: str | None, reduction: list[str]) -> list[str]:
    """Rule 3: blocks for the reduced axes, the innermost first, and for the `rows`; returns the axes to loop over."""
    static = {axis.name for axis in planner.work.axes if axis.is_static}
    before = dict(planner.blocks)
    for most in (_LEAST_ROWS, 1) if rows else (1,):
        planner.blocks = dict(before)
        if rows:
            planner.grow(rows, most=most)
        for axis in reversed(reduction):
            planner.grow(axis)
            if planner.work.sorts:
                planner.blocks[axis] = planner.lengths[axis]
        loops = [axis for axis in reduction if axis not in static or planner.blocks[axis] < planner.lengths[axis]]
        if not loops:
            break
    return loops


def _arranged(
    planner: _Planner, inner: str, pointwise: list[str], reduction: list[str], loops: list[str], order: list[str]
) -> TilePlan:
    """The plan for the planner's blocks: axes with a block of one are walked instead."""
    blocks = {
        axis: next_power_of_2(block)
        for axis, block in planner.blocks.items()
        if block > 1 or (axis in reduction and axis not in loops)
    }
    if inner in blocks and not planner.work.sorts:  # rule 6
        # Ascend's compiler loads the rows of a gather as long as the block, however short they are: more rows then.
        indices = (sorted(access.indirect) for access in _gathers(planner) if access.contiguous == inner)
        longer = next((axis for among in indices for axis in among if axis in blocks), inner)
        others = math.prod(block for axis, block in blocks.items() if axis != longer)
        blocks[longer] = max(blocks[longer], planner.chip.compared_at_once(2) // others)
    if inner in blocks and inner in pointwise and len(blocks) > 1 and _needs_whole_rows(planner.work, inner):  # rule 8
        blocks[inner] = max(blocks[inner], planner.chip.shortest_row)
    outer, last = (pointwise, reduction) if inner in reduction else (reduction, pointwise)
    dimensions = [axis for axis in (*outer, *last) if axis in blocks and axis != inner]
    if inner in blocks:
        dimensions.append(inner)
    if not planner.work.sorts:
        planner.blocks = blocks
        for compared in sorted(planner.work.compared, key=sorted):
            _compare_at_once(planner, compared, dimensions, pointwise)
        blocks = planner.blocks
    static = {axis.name for axis in planner.work.axes if axis.is_static}
    limited = planner.work.limited & static & blocks.keys()
    fitting = (axis for axis in limited if blocks[axis] >= planner.lengths[axis])
    whole = planner.work.whole.union(fitting).intersection(pointwise)
    return TilePlan(tuple(dimensions), blocks, tuple(axis for axis in order if axis in loops), whole)


def _gathers(planner: _Planner) -> list[AccessSummary]:
    """Loads of several rows of the tile at once, by loaded indices."""
    return [
        access
        for access in planner.work.accesses
        if not access.is_store and access.indirect & planner.blocks.keys() and access.contiguous not in access.indirect
    ]


def _needs_whole_rows(work: KernelSummary, inner: str) -> bool:
    """Rule 8: whether rows along `inner` that are shorter than a block of the Unified Buffer would have blocks of their
    own: what is picked by loaded indices, what is moved in less than 32 bits, and conditions on the index along them.
    """
    if any(access.is_store and access.indirect for access in work.accesses):
        return False  # the scalar core has more to do with each element
    is_moved = any(access.span or access.item_size < 4 for access in work.accesses if inner in access.axes)
    return is_moved or inner in work.limited or frozenset([inner]) in work.compared


def _compare_at_once(
    planner: _Planner, compared: frozenset[str], dimensions: Sequence[str], pointwise: Sequence[str]
) -> None:
    """Rule 7: a longer block for one of the axes `compared`, and shorter ones for others where it takes that to fit;
    none where nothing fits.
    """
    own = [axis for axis in dimensions if axis in compared]
    count = math.prod(planner.blocks[axis] for axis in own)
    whole = planner.chip.compared_at_once(4)
    if not planner.chip.few_comparisons < count < whole:
        return
    if any((access.indirect | {access.contiguous}) & compared for access in _gathers(planner)):
        return  # a row is loaded for each index, also for those that do not exist
    before = dict(planner.blocks)
    longer = max(own, key=lambda axis: (axis in pointwise, dimensions.index(axis)))
    block = before[longer] * whole // count
    others = [axis for axis in pointwise if axis in dimensions and axis not in compared | planner.work.whole]
    while not planner.fits(**{longer: block}):
        longest = max(others, key=lambda axis: planner.blocks[axis], default=None)
        if longest is None or planner.blocks[longest] <= 2 * planner.chip.shortest_row:
            planner.blocks = before
            return
        planner.blocks[longest] //= 2
    planner.blocks[longer] = block

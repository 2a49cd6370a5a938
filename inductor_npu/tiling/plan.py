"""How a kernel's axes become tiles: which are dimensions of a tile, in which order, and how long its blocks are.

The choice needs no timing and no compiler. Its rules, in the order in which they are applied (docs/tiling.md):

1. An axis becomes a *scalar-loop axis*, with one index at a time, if an address needs it so: the address has a `//` or
   `%` of it that no split point removes, or it reaches the address through a loaded index that selects a row.
2. The innermost dimension is the axis along which most bytes are contiguous in memory.
3. Reduced axes are whole in the tile if they fit the Unified Buffer (one pass over memory), else the tile loops over
   them. The tile has at least `NpuTarget.least_rows` rows, if they fit.
4. Other axes along which some access is contiguous come next (a transpose on chip needs both sides long), then the rest
   from the innermost outwards, until the tile is full. A tile has at most three dimensions.
5. No tile is so large that cores stay idle, or fills more than `NpuTarget.enough_buffer`, as long as it has at least
   `NpuTarget.smallest_tile` elements.
6. A tile has at least 128 elements, however short its axes are: Ascend's compiler compares `NpuTarget.vector_bytes` at
   a time, and the remainder element by element.
7. A predicate over some of the tile's axes must cover at least 64 elements (one vector comparison) or at most 8
   (`NpuTarget.few_comparisons`: scalar comparisons cost no more than reading an argument).
8. A row has at least 8 elements in the tile if it is gathered by loaded indices, moved in less than 32 bits, or has a
   predicate on the index along it: each shorter row would take a block of its own on chip.

Block lengths are powers of two, which every Triton accepts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch._inductor.runtime.runtime_utils import next_power_of_2

from inductor_npu.target import NpuTarget

# The share of the Unified Buffer that a tile may fill, as estimated. The compiler's own temporaries need the rest.
FILLED = 0.8

# More dimensions than this cost compile time and masked lanes without making bursts longer: with four, programs of the
# corpus take 2.1% more cycles. With two they take 0.8% fewer in the mean, but three of them more
# (`python -m corpus.thresholds`).
_MOST_DIMENSIONS = 3


@dataclass(frozen=True)
class AxisSummary:
    """An axis as the planner sees it.

    `name` is unique in the kernel. `length` is in elements; for a dynamic size it is Inductor's hint, and `is_static`
    is False.
    """

    name: str
    length: int
    is_reduction: bool
    is_static: bool = True


@dataclass(frozen=True)
class AccessSummary:
    """One load or store. Axes are named as in `KernelSummary.axes`; counts are in elements.

    `item_size` is in bytes. `axes` are those that the address depends on, `contiguous` the one with stride one,
    `indirect` those that reach the address through loaded indices. `passes` is the number of loops that make the
    access, where the tile loops over reduced axes.

    `stretch`: the access moves a strided range of so many elements for each element of the tile, with a gather on chip;
    0 for an access without such a range.

    `range_length`: the load moves an indexed range of so many elements, all that its loaded indices may point to, for
    each index along the axes `rows`, and gathers the tile's elements from it on chip; 0 for an access without one.
    """

    item_size: int
    axes: frozenset[str]
    contiguous: str | None
    indirect: frozenset[str]
    is_store: bool
    passes: int = 1
    stretch: int = 0
    range_length: int = 0
    rows: frozenset[str] = frozenset()

    def range_bytes(self, blocks: Mapping[str, int]) -> int:
        """Bytes of the indexed range, for a tile with these `blocks` (elements by axis name)."""
        return self.range_length * self.item_size * math.prod(blocks.get(axis, 1) for axis in self.rows)

    def footprint(self, blocks: Mapping[str, int]) -> int:
        """Bytes of Unified Buffer that the access takes in a tile with these `blocks` (elements by axis name).

        What is moved counts twice, because of double buffering. A gather also holds its positions and its result.
        """
        items = math.prod(blocks.get(axis, 1) for axis in self.axes)
        moved = 2 * (self.range_bytes(blocks) if self.range_length else self.item_size * items * max(1, self.stretch))
        return moved + (items * (4 + max(4, self.item_size)) if self.stretch or self.range_length else 0)


# Values alive at one moment: their number by (axes along which they vary, bytes of an element).
Live = Counter[tuple[frozenset[str], int]]


@dataclass(frozen=True)
class KernelSummary:
    """What the planner knows of a kernel. `axes` go from the outermost inwards; all other fields name them.

    `live` has the values alive at each moment. `scalar_axes` are scalar-loop axes. `scans`: rows are scanned in the
    order of their elements. `sorts`: rows are sorted. `operations` counts passes of the vector core by (axes, bytes of
    an element); only the cost model reads it.

    `whole`: axes that each tile must contain from end to end. `compared`: the axes of each value that is compared.
    `limited`: axes that are best whole in each tile, because a load begins or ends within them, or gathers from rows
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
    """A tile: dimensions, blocks and loops, by the names of axes.

    `order` lists the tile's dimensions from the outermost inwards, `blocks` their lengths in elements. `loops` are the
    reduced axes of which a program sees one block (or, for a scalar-loop axis, one index) at a time. Every other
    reduced axis is whole in the tile, as are the pointwise axes in `whole`.
    """

    order: tuple[str, ...]
    blocks: dict[str, int]
    loops: tuple[str, ...]
    whole: frozenset[str] = frozenset()

    @property
    def is_persistent(self) -> bool:
        """Whether the tile contains all reduced axes from end to end."""
        return not self.loops


def footprint(blocks: dict[str, int], work: KernelSummary) -> int:
    """Estimated bytes of Unified Buffer: each access twice, because of double buffering, and the values alive at the
    worst moment once.

    `blocks` are the lengths, in elements, of the tile's dimensions by axis name; along any other axis a tile has one
    index.
    """

    buffers = sum(access.footprint(blocks) for access in work.accesses)
    return buffers + max((_bytes_alive(blocks, live) for live in work.live), default=0)


def _bytes_alive(blocks: Mapping[str, int], live: Live, along: str | None = None) -> int:
    """Bytes of the values alive at one moment, of those that vary along the axis `along` if one is named."""
    return sum(
        count * size * math.prod(blocks.get(axis, 1) for axis in axes)
        for (axes, size), count in live.items()
        if along is None or along in axes
    )


class _Planner:
    def __init__(self, work: KernelSummary, chip: NpuTarget, largest_tile: int, share: float) -> None:
        self.work, self.chip, self.largest_tile = work, chip, largest_tile
        self.room = chip.unified_buffer * share
        self.enough = (chip.enough_buffer or chip.unified_buffer) * share
        self.lengths = {axis.name: axis.length for axis in work.axes}
        self.blocks: dict[str, int] = {}

    def fits(self, **changed: int) -> bool:
        """Whether the present blocks, with those in `changed`, stay within the limits on elements, footprint and
        indexed ranges.
        """
        blocks = {**self.blocks, **changed}
        if any(access.range_bytes(blocks) > self.chip.largest_range for access in self.work.accesses):
            return False
        return math.prod(blocks.values()) <= self.largest_tile and footprint(blocks, self.work) <= self.room

    def keeps_row(self, axis: str) -> bool:
        """Whether the row along the reduced `axis` stays in the tile beyond those limits, on a chip that can
        (`NpuTarget.longest_row`): loops over it would read it again, and the values alive at once have room.
        """
        if self.lengths[axis] > self.chip.longest_row or self.work.scans:
            return False
        if not any(each.name == axis and each.is_static for each in self.work.axes):
            return False
        if not any(axis in access.axes and access.passes > 1 for access in self.work.accesses):
            return False
        blocks = {**self.blocks, axis: next_power_of_2(self.lengths[axis])}
        alive = max(_bytes_alive(blocks, live, along=axis) for live in self.work.live)
        return math.prod(blocks.values()) <= self.chip.longest_row and alive <= self.room / FILLED

    def tiles(self) -> int:
        """Tiles of the whole kernel with the present blocks; reduced axes make none."""
        return math.prod(
            -(-axis.length // self.blocks.get(axis.name, 1)) for axis in self.work.axes if not axis.is_reduction
        )

    def grow(self, axis: str, most: int | None = None, for_cores: bool = False) -> None:
        """Doubles the block of `axis` while it is shorter than the axis (and than `most`) and fits. With `for_cores` it
        stops before cores stay idle, and where the tile fills enough of the Unified Buffer.
        """
        self.blocks.setdefault(axis, 1)
        while self.blocks[axis] < min(self.lengths[axis], most or self.lengths[axis]):
            if not self.fits(**{axis: self.blocks[axis] * 2}):
                return
            is_worth_a_program = math.prod(self.blocks.values()) >= self.chip.smallest_tile
            longer = {**self.blocks, axis: self.blocks[axis] * 2}
            stops = self.tiles() < 2 * self.chip.vector_cores or footprint(longer, self.work) > self.enough
            if for_cores and is_worth_a_program and stops:
                return
            self.blocks[axis] *= 2


def rows_by_index(work: KernelSummary, shortest_row: int) -> frozenset[str]:
    """Returns the axes that only select a row, through a loaded index: each row of at least `shortest_row` elements is
    read by itself.
    """
    lengths = {axis.name: axis.length for axis in work.axes}
    scalar_axes: set[str] = set()
    for access in work.accesses:
        row = access.contiguous
        if access.indirect and row is not None and row not in access.indirect and lengths[row] >= shortest_row:
            scalar_axes |= access.indirect
    return frozenset(scalar_axes)


def innermost(work: KernelSummary, among: Sequence[str]) -> str | None:
    """Applies rule 2: returns the axis in `among` along which most bytes are contiguous, of equals the innermost; None
    if `among` is empty.
    """
    lengths = {axis.name: axis.length for axis in work.axes}
    votes = dict.fromkeys(among, 0)
    for access in work.accesses:
        if access.contiguous in votes:
            votes[access.contiguous] += access.item_size * math.prod(lengths[axis] for axis in access.axes)
    if not votes:
        return None
    return max(votes, key=lambda axis: (votes[axis], among.index(axis)))


def plan_tile(work: KernelSummary, chip: NpuTarget, largest_tile: int, share: float = FILLED) -> TilePlan:
    """Chooses the tile of the kernel `work` for `chip`.

    The tile has at most `largest_tile` elements and is estimated to fill at most `share` (0 to 1) of the Unified
    Buffer; the compiler's own temporaries need the rest. Rules 6 and 8 and sorted rows may exceed both.
    """
    scalar_axes = _in_order(work, work.scalar_axes | rows_by_index(work, chip.shortest_row).difference(work.whole))
    pointwise = [axis.name for axis in work.axes if not axis.is_reduction and axis.name not in scalar_axes]
    reduction = [axis.name for axis in work.axes if axis.is_reduction and axis.name not in scalar_axes]
    scalar_reductions = [axis.name for axis in work.axes if axis.is_reduction and axis.name in scalar_axes]
    inner = innermost(work, [*pointwise, *reduction])
    if inner is None:
        return TilePlan((), {}, tuple(scalar_reductions))
    planner = _Planner(work, chip, largest_tile, share)
    # A transposing tile reads along one axis and writes along another. Along both it fills a vector instruction.
    side = chip.compared_at_once(4)
    contiguous = {access.contiguous for access in work.accesses if len(access.axes) > 1}
    crossed = [axis for axis in reversed(pointwise) if axis in contiguous and axis != inner]

    if work.sorts:
        planner.blocks |= {axis: next_power_of_2(planner.lengths[axis]) for axis in reduction}
    for axis in (name for name in planner.lengths if name in work.whole):
        planner.grow(axis)
    if inner in pointwise:
        most = side if crossed else chip.columns_at_once if reduction else None
        planner.grow(inner, most=most, for_cores=not reduction)
    loops = _reduced(planner, pointwise[-1] if pointwise and inner in reduction else None, reduction)
    loops += scalar_reductions
    # Rules 4 and 5.
    for axis in crossed:
        planner.grow(axis, most=side)
    for axis in [inner, *crossed, *reversed(pointwise)]:
        dimensions = {name for name, block in planner.blocks.items() if block > 1}
        if axis in pointwise and (axis in dimensions or len(dimensions) < _MOST_DIMENSIONS):
            planner.grow(axis, for_cores=True)
    return _arranged(planner, inner, pointwise, reduction, loops, [axis.name for axis in work.axes])


def _in_order(work: KernelSummary, scalar_axes: frozenset[str]) -> frozenset[str]:
    """The scalar-loop axes where rows are scanned or sorted.

    A scan goes through its reduced axes like a loop nest: no axis of the tile is outside of a scalar-loop axis, and a
    tile can be scanned along one axis only. A sort needs its whole row at once.
    """
    reduced = [axis.name for axis in work.axes if axis.is_reduction]
    if work.sorts:
        return scalar_axes.difference(reduced)
    return scalar_axes.union(reduced[:-1]) if work.scans else scalar_axes


def _reduced(planner: _Planner, rows: str | None, reduction: list[str]) -> list[str]:
    """Applies rule 3: sets blocks for the reduced axes, the innermost first, and for the axis `rows`; returns the axes
    to loop over.
    """
    static = {axis.name for axis in planner.work.axes if axis.is_static}
    before = dict(planner.blocks)
    for most in (planner.chip.least_rows, 1) if rows else (1,):
        planner.blocks = dict(before)
        if rows:
            planner.grow(rows, most=most)
        for axis in reversed(reduction):
            planner.grow(axis)
            if planner.keeps_row(axis):
                planner.blocks[axis] = planner.lengths[axis]
        loops = [axis for axis in reduction if axis not in static or planner.blocks[axis] < planner.lengths[axis]]
        if not loops:
            break
    return loops


def _arranged(
    planner: _Planner, inner: str, pointwise: list[str], reduction: list[str], loops: list[str], order: list[str]
) -> TilePlan:
    """The plan for the planner's blocks. Axes with a block of one become scalar-loop axes."""
    blocks = {
        axis: next_power_of_2(block)
        for axis, block in planner.blocks.items()
        if block > 1 or (axis in reduction and axis not in loops)
    }
    if inner in blocks and not planner.work.sorts:  # rule 6
        # Ascend's compiler loads rows of a gather as long as the block, however short they are: more rows then.
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
    """Rule 8: whether each row along `inner` would take a block of the Unified Buffer, however short it is. That is so
    for elements gathered by loaded indices, elements moved in less than 32 bits, and predicates on the index along
    `inner`.
    """
    if any(access.is_store and access.indirect for access in work.accesses):
        return False  # the scalar core has more to do with each element
    is_moved = any(access.range_length or access.item_size < 4 for access in work.accesses if inner in access.axes)
    return is_moved or inner in work.limited or frozenset([inner]) in work.compared


def _compare_at_once(
    planner: _Planner, compared: frozenset[str], dimensions: Sequence[str], pointwise: Sequence[str]
) -> None:
    """Applies rule 7: lengthens the block of one of the axes `compared`, and shortens others if it takes that to fit.
    Changes nothing if nothing fits.
    """
    own = [axis for axis in dimensions if axis in compared]
    count = math.prod(planner.blocks[axis] for axis in own)
    whole = planner.chip.compared_at_once(4)
    if not planner.chip.few_comparisons < count < whole:
        return
    if any((access.indirect | {access.contiguous}) & compared for access in _gathers(planner)):
        return  # a row is loaded for each index, also for masked lanes
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

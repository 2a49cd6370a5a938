"""Gathers whose places are known when code is written: neighbours are read as they lie, and picked by shuffles.

What a chunk of lanes takes is often the same in every chunk, but for where it begins: every third element, two rows in
turns. Then a gather is a few contiguous reads of its source, which may be a load, a tile in scratch or a computation,
and shuffles with constant orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ttir.ir import Op, Value
from .builder import Val
from .lanes import Index, Lane, Uniform, Vector, is_uniform
from .plan import Root, is_tensor, is_virtual, moves
from .types import shape_of

if TYPE_CHECKING:
    from .frame import Frame
    from .kernel import KernelGenerator

MOST_READS = 16  # contiguous reads for a chunk
LONGEST_PERIOD = 8  # chunks after which what they take repeats


@dataclass(frozen=True)
class Pattern:
    """What chunks take: lane l of the chunk that begins at position `firsts[j]` takes the place
    `bases[j] + offsets[l]`.
    """

    firsts: np.ndarray
    bases: np.ndarray
    offsets: np.ndarray


def pattern_of(table: np.ndarray, firsts: np.ndarray, width: int) -> Pattern | None:
    """The pattern of chunks of `width` lanes that begin at `firsts`, of a table with one axis; None if they differ."""
    if firsts.size == 0 or firsts[0] < 0 or firsts[-1] + width > table.size:
        return None
    places = table[firsts[:, None] + np.arange(width)].astype(np.int64)
    bases = places.min(axis=1)
    offsets = places - bases[:, None]
    if not (offsets == offsets[0]).all():
        return None
    return Pattern(firsts, bases, offsets[0])


def clusters(offsets: np.ndarray, width: int) -> list[tuple[int, int]]:
    """The contiguous reads (first offset, elements) that cover `offsets`."""
    places = np.unique(offsets)
    gaps = np.flatnonzero(np.diff(places) > width)
    starts, ends = [0, *(gaps + 1)], [*gaps, places.size - 1]
    return [(int(places[s]), int(places[e] - places[s]) + 1) for s, e in zip(starts, ends)]


def pick(frame: Frame, op: Op, position: Lane) -> Lane | None:
    """The chunk at `position` of a gather along the only axis of its source; None where it has no such pattern."""
    source, indices = op.operands
    table = frame.kernel.tables.of(indices)
    if table is None or table.ndim != 1 or len(shape_of(source.type)) != 1 or not frame.width:
        return None
    if not isinstance(position, Index) or position.step != 1:
        return None
    firsts = _possible(position.first, table.size)
    pattern = None if firsts is None else pattern_of(table, firsts, frame.width)
    if pattern is None or pattern.bases.min() < 0:
        return None
    length = shape_of(source.type)[0]
    linear = _linear(pattern)
    reads = clusters(pattern.offsets, frame.width)
    if linear is not None and linear[0] > 1:  # all gathers of one step read from the same places
        behind = linear[1] % linear[0]
        pattern = Pattern(pattern.firsts, pattern.bases - behind, pattern.offsets + behind)
        reads = clusters(np.append(pattern.offsets, 0), frame.width)
    highest = int(pattern.bases.max())
    if highest + int(pattern.offsets.max()) >= length:
        return None
    end = int(table.max()) + 1  # what lies behind may be masked off, which would cost every chunk a mask
    whole = [piece for start, size in reads for piece in _pieces(start, size, frame.width, end - highest)]
    if len(whole) > MOST_READS:
        return None
    base = _base(frame, pattern, position.first)
    if len(whole) == 1 and (pattern.offsets == np.arange(frame.width)).all():
        return frame.evaluate(source, (frame.maps.shared(base, 1),))
    return _assembled(frame, source, base, pattern.offsets, whole)


def _assembled(frame: Frame, source: Value, base: Val, offsets: np.ndarray, reads: Sequence[tuple[int, int]]) -> Lane:
    """Each read shuffled to the lanes that take from it, one over the other."""
    lanes, b = frame.kernel.elementwise.lanes, frame.b
    result: Val | None = None
    for start, size in reads:
        first = lanes.add(base, b.constant("i64", start))
        read = frame.of_width(size)
        lane = read.evaluate(source, (read.maps.shared(first, 1 if size > 1 else 0),))
        if is_uniform(lane) and len(reads) == 1:
            return Uniform(lanes.scalar(lane))
        taken = [int(o) - start if start <= o < start + size else -1 for o in offsets]
        if is_uniform(lane):
            part = b.splat(lanes.scalar(lane), frame.width)
        else:
            part = b.shuffle(lanes.vector(lane, size), taken)
        if result is None:
            result = part
        else:
            order = [frame.width + k if t >= 0 else k for k, t in enumerate(taken)]
            result = b.shuffle(result, order, part)
    assert result is not None
    return Vector(result)


def _pieces(start: int, size: int, width: int, end: int) -> list[tuple[int, int]]:
    """Reads of whole registers (first offset, elements) that cover `size` offsets from `start` and stay below `end`, if
    possible, as the last one may overlap the one before.
    """
    lanes = width & -width
    if size <= lanes:
        rounded = 1 << (size - 1).bit_length()
        return [(start, rounded if start + rounded <= end else size)]
    return [*((at, lanes) for at in range(start, start + size - lanes, lanes)), (start + size - lanes, lanes)]


def _possible(first: Val, most: int) -> np.ndarray | None:
    """All values that a scalar may have, by what is known of it; None if they are not known, or too many."""
    if first.constant is not None:
        return np.array([int(first.constant)])
    if first.high - first.low > most:
        return None
    return np.arange(first.low, first.high + 1, max(1, first.divisor))


def _linear(pattern: Pattern) -> tuple[int, int] | None:
    """Factor and summand by which the base follows from the first position."""
    if pattern.firsts.size == 1:
        return None
    step, rises = int(pattern.firsts[1] - pattern.firsts[0]), np.diff(pattern.bases)
    rise = int(rises[0])
    if rise % step or not (rises == rise).all():
        return None
    factor = rise // step
    return factor, int(pattern.bases[0]) - factor * int(pattern.firsts[0])


def _base(frame: Frame, pattern: Pattern, first: Val) -> Val:
    """The least place of the chunk that begins at `first`: a linear function of that, or looked up."""
    b, lanes = frame.b, frame.kernel.elementwise.lanes
    firsts, bases = pattern.firsts, pattern.bases
    low, high, divisor = int(bases.min()), int(bases.max()), math.gcd(*(int(base) for base in bases))
    if low == high:
        return b.constant("i64", low)
    linear, step = _linear(pattern), int(firsts[1] - firsts[0])
    if linear is not None:
        scaled = lanes.multiply(first, b.constant("i64", linear[0]))
        return lanes.add(scaled, b.constant("i64", linear[1])).known(low, high, divisor)
    place = lanes.subtract(first, b.constant("i64", int(firsts[0])))
    place = lanes.divide(place.known(0, int(firsts[-1] - firsts[0]), step), b.constant("i64", step))
    rises = np.diff(bases)
    if (rises == rises[0]).all():
        scaled = lanes.multiply(place, b.constant("i64", int(rises[0])))
        return lanes.add(scaled, b.constant("i64", int(bases[0]))).known(low, high, divisor)
    table = b.table("i64", [int(base) for base in bases])
    address = lanes.pointer(table, place, 8)
    return b.read("i64", 0, f"load i64, {address}", address).known(low, high, divisor)


# -- how wide chunks are ---------------------------------------------------------------------------------------------
def chunks_in_a_period(kernel: KernelGenerator, roots: Sequence[Root], extent: int, lanes: int) -> int:
    """How many chunks of `lanes` a nest over one axis takes together so that all that it gathers follows a pattern, and
    reads no part of a chunk; 1 if there is no such number.
    """
    tables = _gathered(kernel, roots)
    if not tables:
        return 1
    found = 1
    for number in range(1, LONGEST_PERIOD + 1):
        width = number * lanes
        if width > extent:
            break
        firsts = np.arange(0, extent // width * width, width)
        patterns = [pattern_of(table, firsts, width) for table in tables]
        known = [pattern for pattern in patterns if pattern is not None]
        if len(known) < len(tables):
            continue
        if all(len(clusters(pattern.offsets, width)) <= number for pattern in known):
            return number
        found = found if found > 1 else number
    return found


def _gathered(kernel: KernelGenerator, roots: Sequence[Root]) -> list[np.ndarray]:
    """The places of the gathers that `roots` read lane by lane."""
    found: dict[Value, np.ndarray] = {}
    for op in _needed(kernel, roots, lambda op: op.name != "tt.gather" and not moves(op)):
        if op.name == "tt.gather":
            table = kernel.tables.of(op.operands[1])
            if table is not None and table.ndim == 1 and len(shape_of(op.operands[0].type)) == 1:
                found[op.operands[1]] = table
    return list(found.values())


def gathers_known_places(kernel: KernelGenerator, roots: Sequence[Root]) -> bool:
    """Whether what `roots` need is gathered somewhere from places that are known."""
    return any(
        op.name == "tt.gather" and kernel.tables.of(op.operands[1]) is not None
        for op in _needed(kernel, roots, lambda op: True)
    )


def _needed(kernel: KernelGenerator, roots: Sequence[Root], goes_on: Callable[[Op], bool]) -> Iterator[Op]:
    """The operations that are evaluated on demand for `roots`, each once; not what one needs that does not go on."""
    seen: set[Value] = set()
    stack = [operand for root in roots for operand in root.operands]
    while stack:
        value = stack.pop()
        op = value.owner
        if value in seen or op is None or not is_tensor(value) or value in kernel.env or not is_virtual(op):
            continue
        seen.add(value)
        yield op
        if goes_on(op):
            stack += op.operands


# -- what a nest need not do -----------------------------------------------------------------------------------------
def needed(kernel: KernelGenerator, roots: Sequence[Root], shape: tuple[int, ...], first: int, last: int) -> int:
    """How many positions of the axes [first, last), in their row-major order, some store may write."""
    extent, most = math.prod(shape[first:last]), 0
    for root in roots:
        if root.op is None or root.op.name != "tt.store":
            return extent
        if len(root.op.operands) < 3:
            return extent
        written: np.ndarray = np.ones(extent, dtype=bool)
        for condition in _conditions(root.op.operands[2]):
            table = kernel.tables.of(condition)
            if table is not None and table.shape == shape:
                written &= table.reshape(math.prod(shape[:first]), extent, -1).any(axis=(0, 2))
        most = max(most, int(written.nonzero()[0].max(initial=-1)) + 1)
    return max(most, 1)


def _conditions(mask: Value) -> list[Value]:
    """The parts of a mask that all have to hold."""
    if mask.owner is not None and mask.owner.name == "arith.andi":
        return [part for operand in mask.owner.operands for part in _conditions(operand)]
    return [mask]


__all__ = ["chunks_in_a_period", "gathers_known_places", "needed", "pick"]

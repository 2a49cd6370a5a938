"""Gathers at places known at code-generation time: contiguous reads and shuffles.

Where all chunks follow one pattern (`planning/gather_patterns.py`), a gather is a few contiguous reads of its source (a
load, a tile in scratch or a computation), and shuffles with constant orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..forms.lane import Index, Lane, Uniform, Vector, is_uniform
from ..forms.types import shape_of
from ..forms.value import Val
from ..planning.gather_patterns import GatherPattern, clusters, pattern_of

# The elements of a gather's source from a position on: how many, and how far apart (0: one in all lanes).
Read = Callable[[Val, int, int], Lane]
MOST_READS = 16  # contiguous reads for a chunk


def constant_gather(context: CodegenContext, op: Op, position: Lane, width: int, read: Read) -> Lane | None:
    """The chunk at `position` of a gather along the only axis of its source; None where it has no such pattern."""
    source, indices = op.operands
    table = context.facts.constants.of(indices)
    if table is None or table.ndim != 1 or len(shape_of(source.type)) != 1 or not width:
        return None
    if not isinstance(position, Index) or position.step != 1:
        return None
    firsts = _possible(position.first, table.size)
    pattern = None if firsts is None else pattern_of(table, firsts, width)
    if pattern is None or pattern.bases.min() < 0:
        return None
    length = shape_of(source.type)[0]
    linear = _linear(pattern)
    reads = clusters(pattern.offsets, width)
    if linear is not None and linear[0] > 1:  # all gathers of one step read from the same places
        behind = linear[1] % linear[0]
        pattern = GatherPattern(pattern.firsts, pattern.bases - behind, pattern.offsets + behind)
        reads = clusters(np.append(pattern.offsets, 0), width)
    highest = int(pattern.bases.max())
    if highest + int(pattern.offsets.max()) >= length:
        return None
    end = int(table.max()) + 1  # what lies behind may be masked off, which would cost every chunk a mask
    whole = [piece for start, size in reads for piece in _pieces(start, size, width, end - highest)]
    if len(whole) > MOST_READS:
        return None
    base = _base(context, pattern, position.first)
    if len(whole) == 1 and (pattern.offsets == np.arange(width)).all():
        return read(base, width, 1)
    return _assembled(context, base, pattern.offsets, whole, read)


def _assembled(
    context: CodegenContext, base: Val, offsets: np.ndarray, reads: Sequence[tuple[int, int]], read: Read
) -> Lane:
    """Each read shuffled to the lanes that take from it, one over the other."""
    b, lanes, width = context.b, context.lanes, len(offsets)
    result: Val | None = None
    for start, size in reads:
        first = context.scalars.add(base, b.constant("i64", start))
        lane = read(first, size, 1 if size > 1 else 0)
        if is_uniform(lane) and len(reads) == 1:
            return Uniform(lanes.scalar(lane))
        taken = [int(o) - start if start <= o < start + size else -1 for o in offsets]
        if is_uniform(lane):
            part = b.splat(lanes.scalar(lane), width)
        else:
            part = b.shuffle(lanes.vector(lane, size), taken)
        if result is None:
            result = part
        else:
            order = [width + k if t >= 0 else k for k, t in enumerate(taken)]
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


def _linear(pattern: GatherPattern) -> tuple[int, int] | None:
    """Factor and summand by which the base follows from the first position."""
    if pattern.firsts.size == 1:
        return None
    step, rises = int(pattern.firsts[1] - pattern.firsts[0]), np.diff(pattern.bases)
    rise = int(rises[0])
    if rise % step or not (rises == rise).all():
        return None
    factor = rise // step
    return factor, int(pattern.bases[0]) - factor * int(pattern.firsts[0])


def _base(context: CodegenContext, pattern: GatherPattern, first: Val) -> Val:
    """The least place of the chunk that begins at `first`: a linear function of that, or looked up."""
    b, scalars = context.b, context.scalars
    firsts, bases = pattern.firsts, pattern.bases
    low, high, divisor = int(bases.min()), int(bases.max()), math.gcd(*(int(base) for base in bases))
    if low == high:
        return b.constant("i64", low)
    linear, step = _linear(pattern), int(firsts[1] - firsts[0])
    if linear is not None:
        scaled = scalars.multiply(first, b.constant("i64", linear[0]))
        return scalars.add(scaled, b.constant("i64", linear[1])).known(low, high, divisor)
    place = scalars.subtract(first, b.constant("i64", int(firsts[0])))
    place = scalars.divide(place.known(0, int(firsts[-1] - firsts[0]), step), b.constant("i64", step))
    rises = np.diff(bases)
    if (rises == rises[0]).all():
        scaled = scalars.multiply(place, b.constant("i64", int(rises[0])))
        return scalars.add(scaled, b.constant("i64", int(bases[0]))).known(low, high, divisor)
    table = b.table("i64", [int(base) for base in bases])
    address = scalars.pointer(table, place, 8)
    return b.read("i64", 0, f"load i64, {address}", address).known(low, high, divisor)

"""Gathers at places known at code-generation time: what a chunk reads, and how wide chunks are for that.

Apart from the start, what a chunk of lanes reads is often the same in every chunk: every third element, two rows
alternately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...ttir.ir import Op, Value
from ..analysis.constant_tiles import ConstantTiles
from ..analysis.operations import is_tensor, is_virtual, moves
from ..forms.scratch import Place
from ..forms.types import shape_of
from .steps import Root

LONGEST_PERIOD = 8  # chunks after which what they take repeats


@dataclass(frozen=True)
class GatherPattern:
    """What chunks take: lane l of the chunk that begins at position `firsts[j]` takes the place
    `bases[j] + offsets[l]`.
    """

    firsts: np.ndarray
    bases: np.ndarray
    offsets: np.ndarray


def pattern_of(table: np.ndarray, firsts: np.ndarray, width: int) -> GatherPattern | None:
    """The pattern of chunks of `width` lanes that begin at `firsts`, of a table with one axis; None if they differ."""
    if firsts.size == 0 or firsts[0] < 0 or firsts[-1] + width > table.size:
        return None
    places = table[firsts[:, None] + np.arange(width)].astype(np.int64)
    bases = places.min(axis=1)
    offsets = places - bases[:, None]
    if not (offsets == offsets[0]).all():
        return None
    return GatherPattern(firsts, bases, offsets[0])


def clusters(offsets: np.ndarray, width: int) -> list[tuple[int, int]]:
    """The contiguous reads (first offset, elements) that cover `offsets`."""
    places = np.unique(offsets)
    gaps = np.flatnonzero(np.diff(places) > width)
    starts, ends = [0, *(gaps + 1)], [*gaps, places.size - 1]
    return [(int(places[s]), int(places[e] - places[s]) + 1) for s, e in zip(starts, ends)]


def chunks_in_a_period(
    roots: Sequence[Root], constants: ConstantTiles, places: Mapping[Value, Place], extent: int, lanes: int
) -> int:
    """How many chunks of `lanes` a nest over one axis takes together so that all that it gathers follows a pattern, and
    reads no part of a chunk; 1 if there is no such number.
    """
    tables = _gathered(roots, constants, places)
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


def _gathered(roots: Sequence[Root], constants: ConstantTiles, places: Mapping[Value, Place]) -> list[np.ndarray]:
    """The places of the gathers that `roots` read lane by lane."""
    found: dict[Value, np.ndarray] = {}
    for op in _needed(roots, places, lambda op: op.name != "tt.gather" and not moves(op)):
        if op.name == "tt.gather":
            table = constants.of(op.operands[1])
            if table is not None and table.ndim == 1 and len(shape_of(op.operands[0].type)) == 1:
                found[op.operands[1]] = table
    return list(found.values())


def gathers_constant_places(roots: Sequence[Root], constants: ConstantTiles, places: Mapping[Value, Place]) -> bool:
    """Whether what `roots` need is gathered somewhere from places that are known."""
    return any(
        op.name == "tt.gather" and constants.of(op.operands[1]) is not None
        for op in _needed(roots, places, lambda op: True)
    )


def _needed(roots: Sequence[Root], places: Mapping[Value, Place], goes_on: Callable[[Op], bool]) -> Iterator[Op]:
    """The operations that are evaluated on demand for `roots`, each once; not what one needs that does not go on."""
    seen: set[Value] = set()
    stack = [operand for root in roots for operand in root.operands]
    while stack:
        value = stack.pop()
        op = value.owner
        if value in seen or op is None or not is_tensor(value) or value in places or not is_virtual(op):
            continue
        seen.add(value)
        yield op
        if goes_on(op):
            stack += op.operands

"""Sums whose operand is zero except at one place: `sum(where(index == place, value, 0))` adds each value at its index.

A kernel for Ascend compares all indices with all places of a row (graph pass `short_scatters`), since the chip's scalar
core is slow for each address. That is a scatter by a one-hot matrix. The host avoids it, and adds `value` to the
element of the result that `index` names: as many additions as indices, whatever the row's length
(`variants/direct_scatter.py`). Likewise `max(where(index == place, number, -1))`, the last of the indices that equal
the place, becomes a write at each index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ttir.ir import Block, Dense, Op, Value, splat_number
from ..analysis.combining import IDENTITIES
from ..analysis.def_use import DefUse
from ..analysis.operations import ONE_HOT_SCATTER
from ..analysis.patterns import conjuncts, counted_by_loop, longer_axes, one_axis, peeled, unbroadcast
from ..forms.types import element_of, is_float, shape_of

PLACE_BITS = 16  # of 32, of which the others say which index is meant
FEWEST_PLACES = 16  # for fewer, comparing all takes no more time


@dataclass(frozen=True)
class OneHotScatter:
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


def replace_scatter(op: Op, combine: str, block: Block, uses: DefUse) -> bool:
    """Whether `op` of `block`, a reduction by `combine`, is such a one: it then is an operation ONE_HOT_SCATTER, in
    place; of a tile that a loop carries, the loop carries the results.
    """
    found = _scatter_of(op.operands[0], op.attrs["axis"], combine, uses, None)
    if found is None:
        return _sink_into_loop(op, combine, block, uses)
    op.operands, op.attrs = found[1], {"scatter": found[0]}
    op.name, op.regions = ONE_HOT_SCATTER, []
    uses.note()
    return True


def _sink_into_loop(reduced: Op, combine: str, block: Block, uses: DefUse) -> bool:
    carried = uses.carried(reduced, combine, block)
    found = None if carried is None else _scatter_of(carried.term, reduced.attrs["axis"], combine, uses, carried.loop)
    if carried is None or found is None:
        return False
    loop, adding, type_ = carried.loop, carried.adding, reduced.result.type
    kind, (index, places, value, *conditions) = found
    none = Dense(float(kind.first) if is_float(element_of(type_)) else int(kind.first))
    first = Op("arith.constant", [], [], {"value": none}, [], loop.line)
    first.results = [Value("%none", type_, first)]
    block.ops.insert(block.ops.index(loop), first)
    adding.name, adding.operands = ONE_HOT_SCATTER, [index, places, value, carried.argument, *conditions]
    adding.attrs = {"scatter": replace(kind, into=True)}
    source = reduced.operands[0]
    loop.operands[3 + source.index] = first.result
    for value in (carried.argument, adding.result, source):
        value.type = type_
    block.ops.remove(reduced)
    uses.replace(reduced.result, source)
    return True


def _scatter_of(
    tile: Value, axis: int, combine: str, uses: DefUse, loop: Op | None
) -> tuple[OneHotScatter, list[Value]] | None:
    """How `tile` is to be reduced along `axis` place by place, and in the rounds of `loop`; the operands for that."""
    shape, identity = shape_of(tile.type), IDENTITIES[combine]
    conditions: list[Value] = []
    if element_of(tile.type) == "i1" or max(shape) > 1 << PLACE_BITS:
        return None
    while tile.owner is not None and tile.owner.name == "arith.select":
        condition, tile, other = tile.owner.operands
        otherwise, parts = splat_number(other), conjuncts(condition)
        for number, term in enumerate(parts):
            found = _index_and_place(term, shape, axis)
            if found is not None:
                index, places, place = found
                kind = OneHotScatter(shape, axis, place, combine, first=identity)
                if otherwise != identity:
                    counts = _hold_somewhere(conditions, shape, axis, uses, loop)
                    if otherwise is None or not counts or not _is_least(otherwise, combine, tile, uses):
                        return None
                    kind = replace(kind, first=otherwise, rising=_is_rising(tile, axis, uses, loop))
                conditions += [*parts[:number], *parts[number + 1 :]]
                return kind, [index, places, tile, *conditions]
        if otherwise != identity:
            return None
        conditions += parts
    return None


def _is_least(otherwise: float, combine: str, value: Value, uses: DefUse) -> bool:
    """Whether `otherwise` counts where nothing else does: no value is less."""
    known = uses.range(value)
    return combine == "arith.maximumf" and known is not None and otherwise <= known[0]


def _hold_somewhere(conditions: list[Value], shape: tuple[int, ...], axis: int, uses: DefUse, loop: Op | None) -> bool:
    """Whether there is an index along `axis`, in the rounds of `loop`, at which all `conditions` are known to hold,
    whatever the place: in a loop the first one, of conditions that say where indices end.
    """
    if loop is not None:
        runs = uses.rounds(loop.regions[0].arguments[0]) is not None
        return runs and all(_holds_at_first(condition, axis, uses, loop) for condition in conditions)
    constants = [uses.constants.of(unbroadcast(condition)) for condition in conditions]
    known = [np.broadcast_to(table, shape) for table in constants if table is not None]
    if len(known) < len(constants):
        return False
    others = tuple(other for other in range(len(shape)) if other != axis)
    return not known or bool(np.logical_and.reduce(known).all(axis=others).any())


def _holds_at_first(condition: Value, axis: int, uses: DefUse, loop: Op) -> bool:
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


def _is_rising(value: Value, axis: int, uses: DefUse, loop: Op | None) -> bool:
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

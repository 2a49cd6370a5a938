"""Reductions whose operand is the identity except at one number: `max(where(number == chosen, value, -inf))` is
`value`.

A kernel for Ascend compares all elements of a row with the chosen one, in a loop if the row is longer than a tile
(graph passes `short_scatters`, `short_gathers`). That is a gather by a one-hot row. The host avoids it, and computes
`value` for the chosen number alone (`variants/direct_gather.py`): the number replaces the row's index in all terms of
the value. This reads nothing that the loop would not read: where no number is chosen, loads are masked off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ttir.ir import Block, Op, TensorType, Value, splat_number
from ..analysis.combining import IDENTITIES
from ..analysis.def_use import DefUse
from ..analysis.effects import written_pointers
from ..analysis.operations import ATOMICS, ONE_HOT_GATHER, STANDALONE, VIEWS, WRITES, is_virtual
from ..analysis.patterns import EXACT_IN_FLOAT32, conjuncts, counted_by_loop, longer_axes, one_axis, peeled, unbroadcast
from ..analysis.view_axes import source_axes
from ..forms.types import element_of, shape_of
from .building import drop_carried

FEWEST_NUMBERS = 8  # for fewer, looking at all takes no more time
_SCALAR = ("arith.", "tt.addptr")


@dataclass(frozen=True, eq=False)
class OneHotGather:
    """A tile of `shape` that is the identity of `combine` but where numbers, which count along `axis` from `low` to
    before `high`, are the chosen one. Operands of the operation: what is chosen, whose extent along `axis` is 1; the
    value; conditions, where one of them is off the tile is the identity, too.

    `numbers` are those that a loop counted, round by round, of which the value is made: they are seen along `axis`
    alone. None: the numbers are where in the tile an element is.
    """

    shape: tuple[int, ...]
    axis: int
    combine: str
    numbers: Value | None
    low: int
    high: int


def replace_gather(op: Op, combine: str, block: Block, uses: DefUse) -> bool:
    """Whether `op` of `block`, a reduction by `combine`, is such a one: it then is an operation ONE_HOT_GATHER, in
    place; of a tile that a loop carries, behind the loop, which no longer does.
    """
    if not isinstance(op.result.type, TensorType) or math.prod(shape_of(op.result.type)) == 1:
        return False
    carried = uses.carried(op, combine, block)
    loop = None if carried is None else carried.loop
    found = _gather_of(op.operands[0] if carried is None else carried.term, op.attrs["axis"], combine, uses, loop)
    if found is None:
        return False
    kind, operands = found
    if loop is not None:
        lifted = _Lifted(loop, kind)
        values = [lifted.value(operand, kind.axis) for operand in operands]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or any(written_pointers(inner) for inner in loop.regions[0].ops):
            return False
        operands = known
        drop_carried(loop, op.operands[0].index)
        block.ops.remove(op)
        behind = block.ops.index(loop) + 1
        block.ops[behind:behind] = [*lifted.ops, op]
        if _does_nothing(loop):
            block.ops.remove(loop)
    op.name, op.operands, op.attrs, op.regions = ONE_HOT_GATHER, operands, {"gather": kind}, []
    uses.note()
    return True


def _gather_of(
    tile: Value, axis: int, combine: str, uses: DefUse, loop: Op | None
) -> tuple[OneHotGather, list[Value]] | None:
    """What of `tile` is chosen along `axis`, in the rounds of `loop`, and the operands for that."""
    shape, identity = shape_of(tile.type), IDENTITIES[combine]
    conditions: list[Value] = []
    if element_of(tile.type) == "i1" or shape[axis] < FEWEST_NUMBERS:
        return None
    while tile.owner is not None and tile.owner.name == "arith.select":
        condition, tile, other = tile.owner.operands
        if splat_number(other) != identity:
            return None
        parts = conjuncts(condition)
        for place, term in enumerate(parts):
            found = _number_and_choice(term, shape, axis, uses, loop)
            if found is not None:
                numbers, choice, low, high = found
                conditions += [*parts[:place], *parts[place + 1 :]]
                kind = OneHotGather(shape, axis, combine, numbers if loop is not None else None, low, high)
                return kind, [choice, tile, *conditions]
        conditions += parts
    return None


def _number_and_choice(
    condition: Value, shape: tuple[int, ...], axis: int, uses: DefUse, loop: Op | None
) -> tuple[Value, Value, int, int] | None:
    """The numbers, what is chosen of them, their first and the one behind their last, where `condition` is their
    comparison.
    """
    op = condition.owner
    if op is None or shape_of(condition.type) != shape:
        return None
    if (op.name, op.attrs.get("predicate")) not in (("arith.cmpi", "eq"), ("arith.cmpf", "oeq")):
        return None
    sides = [unbroadcast(operand) for operand in op.operands]
    for numbers, choice in (sides, sides[::-1]):
        if longer_axes(numbers) != [axis] or shape_of(choice.type)[axis] != 1:
            continue
        whole = _whole_numbers(numbers)
        element = element_of(choice.type)
        bounds = None if whole is None else _bounds(whole, uses, loop)
        if whole is None or bounds is None or element not in ("i32", "i64", "f32"):
            continue
        if element != "f32" or max(-bounds[0], bounds[1]) <= EXACT_IN_FLOAT32:
            return whole, choice, *bounds
    return None


def _whole_numbers(numbers: Value) -> Value | None:
    """The i32 that count up, one axis, of which `numbers` are made."""
    counted = one_axis(peeled(numbers, "arith.sitofp", "arith.extsi"))
    return counted if counted is not None and element_of(counted.type) == "i32" else None


def _bounds(numbers: Value, uses: DefUse, loop: Op | None) -> tuple[int, int] | None:
    """The first of the numbers and the one behind their last, in all rounds of `loop`, which are known to be all
    different.
    """
    (length,) = shape_of(numbers.type)
    if loop is None:
        known = uses.range(numbers)
        return None if known is None or known[1] - known[0] != length - 1 else (int(known[0]), int(known[1]) + 1)
    rounds = uses.rounds(loop.regions[0].arguments[0])
    if rounds is None or counted_by_loop(numbers, uses.loops) is not loop or splat_number(loop.operands[2]) != length:
        return None
    return rounds[0], rounds[1] + length


class _Lifted:
    """Copies, to be put behind `loop`, of what its body makes out of the numbers that it counts."""

    def __init__(self, loop: Op, kind: OneHotGather) -> None:
        self.body, self.kind = loop.regions[0], kind
        self.ops: list[Op] = []
        self._copies: dict[tuple[Value, int | None], Value | None] = {}

    def value(self, value: Value, axis: int | None) -> Value | None:
        """`value`, along whose `axis` the numbers count, behind the loop; None where it depends on the rounds, or on
        where in the tile it is, otherwise than by the numbers.
        """
        shape = shape_of(value.type)
        if axis is not None and shape[axis] == 1:
            axis = None
        if value is self.kind.numbers:
            return value if axis is not None else None
        if (value, axis) not in self._copies:
            self._copies[value, axis] = self._copy(value, axis)
        return self._copies[value, axis]

    def _copy(self, value: Value, axis: int | None) -> Value | None:
        op = value.owner
        if op is None:
            return None if value in self.body.arguments else value
        if op not in self.body.ops and axis is None:
            return value
        if splat_number(value) is not None and not op.operands:
            return value if op not in self.body.ops else self._again(op, value, [])
        is_scalar = not isinstance(value.type, TensorType)
        if is_scalar and not op.name.startswith(_SCALAR):
            return None
        if not is_scalar and (not is_virtual(op) or op.name in ("tt.gather", "tt.reduce", "tt.join", "tt.split")):
            return None
        if axis is not None and not op.operands:  # positions, and constants that differ
            return None
        source = self._axis_of_source(op, axis)
        operands = [self.value(o, source if isinstance(o.type, TensorType) else None) for o in op.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or (axis is not None and source is None and op.name in VIEWS - {"tt.broadcast"}):
            return None
        return self._again(op, value, known)

    def _axis_of_source(self, op: Op, axis: int | None) -> int | None:
        """Along which axis of its operands the numbers count; None where along none, or a reshape hides it."""
        if axis is None or op.name not in VIEWS:
            return axis
        shape, source = shape_of(op.result.type), shape_of(op.operands[0].type)
        if op.name == "tt.reshape" and [d for d in shape if d > 1] != [d for d in source if d > 1]:
            return None
        axes = source_axes(op, tuple(axis if here == axis else None for here in range(len(shape))))
        return None if axes is None else axes[axis]

    def _again(self, op: Op, value: Value, operands: list[Value]) -> Value:
        copy = Op(op.name, operands, [], op.attrs, [], op.line)
        copy.results = [Value(f"{result.name}.chosen", result.type, copy, k) for k, result in enumerate(op.results)]
        self.ops.append(copy)
        return copy.results[value.index]


def _does_nothing(loop: Op) -> bool:
    """Whether `loop` neither gives nor changes anything."""
    return not loop.results and not any(
        op.regions or op.name in WRITES or op.name in ATOMICS or op.name in STANDALONE for op in loop.regions[0].ops
    )

"""Reductions of what is the identity but at one number: `max(where(number == chosen, value, -inf))` is `value` there.

A kernel for Ascend looks at all elements of a row for the one that is meant, in a loop if the row is longer than a tile
(graph passes `short_scatters`, `short_gathers`). The host computes `value` for that number alone: the number takes the
place of those that count along the row, in all that the value is made of. Nothing is read that the loop would not read:
where no number is chosen, loads are masked off.

`choose` finds such reductions before code is planned; `emit_chosen` writes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..host_functions import CHOSEN
from ..ttir.ir import Block, Op, TensorType, Value, splat_number
from .coordinates import Coordinates
from .effects import ATOMICS, WRITES, written_pointers
from .frame import Frame, row_major
from .lanes import Index, Lane, Vector
from .plan import SOLO, is_virtual
from .reductions import (
    EXACT_IN_FLOAT32,
    IDENTITIES,
    Uses,
    counted_by_loop,
    drop_carried,
    longer_axes,
    one_axis,
    peeled,
    terms,
    unbroadcast,
)
from .types import element_bytes, element_of, is_float, shape_of
from .views import VIEWS, source_axes

if TYPE_CHECKING:
    from .builder import Val
    from .kernel import KernelGenerator

FEWEST_NUMBERS = 8  # for fewer, looking at all takes no more time
_SCALAR = ("arith.", "tt.addptr")


@dataclass(frozen=True, eq=False)
class Chosen:
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


# -- what is one -----------------------------------------------------------------------------------------------------
def choose(op: Op, combine: str, block: Block, uses: Uses) -> bool:
    """Whether `op` of `block`, a reduction by `combine`, is such a one: it then is an operation CHOSEN, in place; of a
    tile that a loop carries, behind the loop, which no longer does.
    """
    if not isinstance(op.result.type, TensorType) or math.prod(shape_of(op.result.type)) == 1:
        return False
    carried = uses.carried(op, combine, block)
    loop = None if carried is None else carried.loop
    found = _chosen(op.operands[0] if carried is None else carried.term, op.attrs["axis"], combine, uses, loop)
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
    op.name, op.operands, op.attrs, op.regions = CHOSEN, operands, {"chosen": kind}, []
    uses.note()
    return True


def _chosen(tile: Value, axis: int, combine: str, uses: Uses, loop: Op | None) -> tuple[Chosen, list[Value]] | None:
    """What of `tile` is chosen along `axis`, in the rounds of `loop`, and the operands for that."""
    shape, identity = shape_of(tile.type), IDENTITIES[combine]
    conditions: list[Value] = []
    if element_of(tile.type) == "i1" or shape[axis] < FEWEST_NUMBERS:
        return None
    while tile.owner is not None and tile.owner.name == "arith.select":
        condition, tile, other = tile.owner.operands
        if splat_number(other) != identity:
            return None
        parts = terms(condition)
        for place, term in enumerate(parts):
            found = _number_and_choice(term, shape, axis, uses, loop)
            if found is not None:
                numbers, choice, low, high = found
                conditions += [*parts[:place], *parts[place + 1 :]]
                kind = Chosen(shape, axis, combine, numbers if loop is not None else None, low, high)
                return kind, [choice, tile, *conditions]
        conditions += parts
    return None


def _number_and_choice(
    condition: Value, shape: tuple[int, ...], axis: int, uses: Uses, loop: Op | None
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


def _bounds(numbers: Value, uses: Uses, loop: Op | None) -> tuple[int, int] | None:
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

    def __init__(self, loop: Op, kind: Chosen) -> None:
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
        op.regions or op.name in WRITES or op.name in ATOMICS or op.name in SOLO for op in loop.regions[0].ops
    )


# -- its code --------------------------------------------------------------------------------------------------------
class _AtNumber(Frame):
    """Values where `numbers`, if there are any, are `number`; loads are masked off in lanes that are not `inside`."""

    def __init__(self, kernel: KernelGenerator, width: int, numbers: Value | None, number: Lane, inside: Val) -> None:
        super().__init__(kernel, width)
        self._numbers, self._number, self._inside = numbers, number, inside

    def evaluate(self, value: Value, coordinates: Coordinates) -> Lane:
        return self._number if value is self._numbers else super().evaluate(value, coordinates)

    def _mask(self, mask: Lane | None) -> Lane | None:
        if mask is None:
            return Vector(self._inside)
        return Vector(self.b.binary("and", self.kernel.elementwise.lanes.vector(mask, self.width), self._inside))


def emit_chosen(kernel: KernelGenerator, op: Op) -> None:
    """Writes `op`; its result is kept in scratch, row-major."""
    b, memory = kernel.b, kernel.memory
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    kernel.work += math.prod(shape) * 4
    home = kernel.allocate(shape, element, row_major(shape))
    inner = max(axis for axis, extent in enumerate(shape) if extent > 1)
    widest = max(element_bytes(element), *(element_bytes(element_of(o.type)) for o in op.operands[:2]))
    width = max(2, min(kernel.options.vector_bits // 8 // widest, shape[inner]))
    frame = Frame(kernel, width)
    loops, at = [], [frame.maps.zero] * len(shape)
    for axis, extent in enumerate(shape):
        if extent > 1:
            loops.append(b.open_loop(0, extent, width if axis == inner else 1))
            at[axis] = Index(loops[-1].iv, int(axis == inner), "i64")
    value = _value(kernel, op, frame, at, width)
    memory.store(memory.buffer_address(home, list(at), width), Vector(value), None, element, width)
    for loop in reversed(loops):
        b.close_loop(loop)
    kernel.env[op.result] = home


def _value(kernel: KernelGenerator, op: Op, frame: Frame, at: list[Index], width: int) -> Val:
    """The results of one chunk, at the coordinates `at`."""
    chosen: Chosen = op.attrs["chosen"]
    b, lanes, element = kernel.b, kernel.elementwise.lanes, element_of(op.result.type)
    choice, value, *conditions = op.operands
    before = [*at[: chosen.axis], frame.maps.zero, *at[chosen.axis :]]
    narrow = [c if extent > 1 else frame.maps.zero for c, extent in zip(before, shape_of(choice.type))]
    number, inside = _whole(kernel, chosen, lanes.vector(frame.evaluate(choice, tuple(narrow)), width))
    there = _AtNumber(kernel, width, chosen.numbers, Vector(number), inside)
    first = b.constant("i32", chosen.low, width)
    position = Vector(b.cast("sext", b.binary("sub", number, first), "i64"))
    coordinates: Coordinates = (*at[: chosen.axis], position, *at[chosen.axis :])
    on = inside
    for condition in conditions:
        on = b.binary("and", on, lanes.vector(there.evaluate(condition, coordinates), width))
    found = lanes.vector(there.evaluate(value, coordinates), width)
    result = b.select(on, found, b.constant(element, IDENTITIES[chosen.combine], width))
    if chosen.combine == "arith.addf":  # to others that are 0.0: no sum is -0.0
        return kernel.elementwise.float_binary("fadd", result, b.constant(element, 0.0, width))
    return result


def _whole(kernel: KernelGenerator, chosen: Chosen, choice: Val) -> tuple[Val, Val]:
    """The chosen numbers as i32, of those that there are, and in which lanes there is one."""
    b, width, element = kernel.b, choice.lanes, choice.element
    kind = float if is_float(element) else int
    least, most = (b.constant(element, kind(end), width) for end in (chosen.low, chosen.high - 1))
    compared = ("fcmp oge", "fcmp ole") if is_float(element) else ("icmp sge", "icmp sle")
    inside = b.binary("and", b.compare(compared[0], choice, least), b.compare(compared[1], choice, most))
    number = b.select(inside, choice, least)
    if is_float(element):
        whole = b.cast("fptosi", number, "i32")
        return whole, b.binary("and", inside, b.compare("fcmp oeq", b.cast("sitofp", whole, element), choice))
    return (number if element == "i32" else b.cast("trunc", number, "i32")), inside


__all__ = ["choose", "emit_chosen"]

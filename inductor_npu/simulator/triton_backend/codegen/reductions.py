"""What a reduction reduces: the condition under which elements count, and the loop that carries them as a tile."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..ttir.ir import Block, Function, Op, TensorType, Value, splat_number
from .tables import Tables
from .types import element_of, limits, shape_of

# Where an element is the identity it does not count.
IDENTITIES = {"arith.addf": 0, "arith.addi": 0, "arith.maximumf": -math.inf}
_SAME = ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "arith.extsi")
EXACT_IN_FLOAT32 = 1 << 24  # whole numbers up to here are different ones in float32


def combining(op: Op) -> str | None:
    """The operation of IDENTITIES by which `op` reduces one tile of several axes; None where it is something else."""
    if op.name != "tt.reduce" or len(op.operands) != 1 or len(shape_of(op.operands[0].type)) < 2:
        return None
    combine = op.regions[0].ops
    is_one = len(combine) == 2 and set(combine[0].operands) == set(op.regions[0].arguments)
    return combine[0].name if is_one and combine[0].name in IDENTITIES else None


@dataclass(frozen=True)
class Carried:
    """`loop` combines `term` with the tile that it carries as `argument` and is told first to be the identity."""

    loop: Op
    argument: Value
    adding: Op
    term: Value


class Uses:
    """Who uses each value of a function, and which loop counts it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.loops: dict[Value, Op] = {}
        self.tables = Tables()
        self.note()

    def note(self) -> None:
        """Looks at the function anew."""
        self.users: defaultdict[Value, list[Op]] = defaultdict(list)
        for op in self.function.body.walk():
            for operand in op.operands:
                self.users[operand].append(op)
            if op.name == "scf.for":
                self.loops[op.regions[0].arguments[0]] = op

    def replace(self, old: Value, new: Value) -> None:
        for user in self.function.body.walk():
            user.operands = [new if operand is old else operand for operand in user.operands]
        self.note()

    def carried(self, reduced: Op, combine: str, block: Block) -> Carried | None:
        """The loop of `block` whose tile `reduced` alone reduces, by the operation that the loop combines it by."""
        source = reduced.operands[0]
        loop = source.owner
        if loop is None or loop.name != "scf.for" or loop not in block.ops or self.users[source] != [reduced]:
            return None
        body = loop.regions[0]
        argument, initial = body.arguments[1 + source.index], loop.operands[3 + source.index]
        adding = body.ops[-1].operands[source.index].owner
        if adding is None or adding.name != combine or adding not in body.ops:
            return None
        if splat_number(initial) != IDENTITIES[combine] or argument not in adding.operands:
            return None
        if self.users[argument] != [adding] or self.users[adding.result] != [body.ops[-1]]:
            return None
        if not isinstance(reduced.result.type, TensorType):
            return None
        return Carried(loop, argument, adding, adding.operands[adding.operands[0] is argument])

    def range(self, value: Value) -> tuple[float, float] | None:
        """The least and the greatest of numbers that are made of positions and constants; None for others."""
        op = value.owner
        if op is None:
            return self.rounds(value)
        number = splat_number(value)
        if number is not None:
            return float(number), float(number)
        if op.name == "tt.make_range":
            return op.attrs["start"], op.attrs["start"] + shape_of(value.type)[0] - 1
        if op.name in _SAME or op.name == "arith.sitofp":
            return self.range(op.operands[0])
        if op.name != "arith.addi":
            return None
        left, right = (self.range(operand) for operand in op.operands)
        least, most = limits(element_of(value.type))
        if left is None or right is None or left[0] + right[0] < least or left[1] + right[1] > most:
            return None
        return left[0] + right[0], left[1] + right[1]

    def rounds(self, counter: Value) -> tuple[int, int] | None:
        """The first and the last number that a loop between constants counts; None for what is no such counter."""
        loop = self.loops.get(counter)
        if loop is None or loop.attrs.get("unsigned"):
            return None
        lower, upper, step = (splat_number(operand) for operand in loop.operands[:3])
        if not (isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)):
            return None
        return (lower, lower + (upper - lower - 1) // step * step) if lower < upper and step > 0 else None


def terms(condition: Value) -> list[Value]:
    """What has to hold for `condition` to hold."""
    op = condition.owner
    return [condition] if op is None or op.name != "arith.andi" else [t for o in op.operands for t in terms(o)]


def unbroadcast(value: Value) -> Value:
    op = value.owner
    return op.operands[0] if op is not None and op.name == "tt.broadcast" else value


def longer_axes(value: Value) -> list[int]:
    """The axes of more than one element."""
    return [axis for axis, extent in enumerate(shape_of(value.type)) if extent > 1]


def peeled(value: Value, *conversions: str) -> Value:
    """What `value` is another shape, or one of `conversions`, of."""
    while value.owner is not None and value.owner.name in ("tt.expand_dims", "tt.reshape", *conversions):
        value = value.owner.operands[0]
    return value


def one_axis(value: Value) -> Value | None:
    """`value`, which has one axis of more than one element, without the others, if its numbers count up by 1."""
    value = peeled(value)
    return value if len(shape_of(value.type)) == 1 and _counts_up(value) else None


def _counts_up(value: Value) -> bool:
    op = value.owner
    if op is None or op.name == "tt.make_range":
        return op is not None
    if op.name != "arith.addi":
        return False
    left, right = op.operands
    return (_counts_up(left) and is_splat(right)) or (_counts_up(right) and is_splat(left))


def is_splat(value: Value) -> bool:
    return value.owner is not None and (value.owner.name == "tt.splat" or splat_number(value) is not None)


def counted_by_loop(value: Value, loops: Mapping[Value, Op]) -> Op | None:
    """The loop of which `value`, one axis, is the counter and the numbers from 0 on added to it."""
    op = value.owner
    if op is None or op.name != "arith.addi":
        return None
    for splat, numbers in (op.operands, op.operands[::-1]):
        is_range = numbers.owner is not None and numbers.owner.name == "tt.make_range"
        if is_range and splat.owner is not None and splat.owner.name == "tt.splat":
            loop = loops.get(splat.owner.operands[0])
            if loop is not None and numbers.owner.attrs["start"] == 0:
                return loop
    return None


def drop_carried(loop: Op, index: int) -> None:
    """Removes a tile that nobody wants from what `loop` carries."""
    body: Block = loop.regions[0]
    del loop.operands[3 + index], body.arguments[1 + index], body.ops[-1].operands[index], loop.results[index]
    for place, result in enumerate(loop.results):
        result.index = place


__all__ = [
    "EXACT_IN_FLOAT32",
    "IDENTITIES",
    "Carried",
    "Uses",
    "combining",
    "counted_by_loop",
    "drop_carried",
    "is_splat",
    "longer_axes",
    "one_axis",
    "peeled",
    "terms",
    "unbroadcast",
]

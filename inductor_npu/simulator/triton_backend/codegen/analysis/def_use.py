"""The users of each value of a function, the loop that counts it, and the range that follows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...ttir.ir import Block, Function, Op, TensorType, Value, splat_number
from ..forms.types import element_of, limits, shape_of
from .combining import IDENTITIES
from .constant_tiles import ConstantTiles

_SAME = ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "arith.extsi")


@dataclass(frozen=True)
class Carried:
    """`loop` combines `term` with the tile that it carries as `argument` and is told first to be the identity."""

    loop: Op
    argument: Value
    adding: Op
    term: Value


class DefUse:
    """Who uses each value of a function, and which loop counts it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.loops: dict[Value, Op] = {}
        self.constants = ConstantTiles()
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

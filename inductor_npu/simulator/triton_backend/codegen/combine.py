"""The combine function of a reduction or scan, on scalars and vectors of any width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ttir.ir import Op, Value
from .builder import Val
from .errors import UnsupportedOperation
from .lanes import Lane, Uniform, Vector
from .types import BITS, element_of, is_float

if TYPE_CHECKING:
    from .kernel import KernelGenerator

Values = list[Val]


class Combiner:
    """Applies the combine function of a tt.reduce or tt.scan."""

    def __init__(self, kernel: KernelGenerator, op: Op) -> None:
        self.kernel, self.b, self.op = kernel, kernel.b, op
        self.block = op.regions[0]
        self.elements = [element_of(r.type) for r in op.results]

    def __call__(self, left: Sequence[Val], right: Sequence[Val]) -> Values:
        """Combines two tuples of scalars or of vectors, `left` being first in order."""
        lanes = left[0].lanes
        form = Vector if lanes else Uniform
        known: dict[Value, Lane] = {arg: form(v) for arg, v in zip(self.block.arguments, (*left, *right))}
        for op in self.block.ops:
            if op.name in ("tt.reduce.return", "tt.scan.return"):
                elementwise = self.kernel.elementwise.lanes
                results = [known[o] if o in known else self.kernel.lane(o) for o in op.operands]
                return [elementwise.vector(r, lanes) if lanes else elementwise.scalar(r) for r in results]
            operands = [known[o] if o in known else self.kernel.lane(o) for o in op.operands]
            result = self.kernel.elementwise.emit(op, operands, lanes)
            for value, lane in zip(op.results, result if isinstance(result, tuple) else (result,)):
                known[value] = lane
        raise UnsupportedOperation(self.op, "its combine function returns nothing")

    def identity(self) -> list[int | float] | None:
        """Values that leave any other unchanged when combined with it, for the usual functions of one value."""
        if len(self.block.ops) != 2 or len(self.block.arguments) != 2:
            return None
        op, element = self.block.ops[0], self.elements[0]
        if set(op.operands) != set(self.block.arguments) or self.block.ops[1].operands != op.results:
            return None
        number = _identity(op.name, element)
        return None if number is None else [number]

    def expect(self, carried: Sequence[Val], initial: Sequence[Val], values: Sequence[Val]) -> None:
        """What is known of the results so far, `carried`, because it holds of the first and of all that is combined
        with them.
        """
        if self.identity() is not None and self.block.ops[0].name == "arith.maximumf":
            for so_far, first, value in zip(carried, initial, values, strict=True):
                so_far.bits_are_ordered = first.bits_are_ordered and value.bits_are_ordered

    def within(self, values: Sequence[Val]) -> Values:
        """All lanes of a vector combined, as scalars; the number of lanes is a power of two."""
        lanes = values[0].lanes
        values = list(values)
        while lanes > 1:
            lanes //= 2
            low = [self.b.shuffle(v, range(lanes)) for v in values]
            high = [self.b.shuffle(v, range(lanes, 2 * lanes)) for v in values]
            values = self(low, high)
        return [self.b.extract(v, 0) if v.lanes else v for v in values]

    def tree(self, parts: list[Values]) -> Values:
        """Several tuples combined in their order, pairwise."""
        while len(parts) > 1:
            pairs = [self(a, b) for a, b in zip(parts[::2], parts[1::2])]
            parts = pairs + parts[len(parts) & ~1 :]
        return parts[0]


def _identity(name: str, element: str) -> int | float | None:
    if is_float(element):
        return {
            "arith.addf": -0.0,
            "arith.mulf": 1.0,
            "arith.maxnumf": math.nan,
            "arith.minnumf": math.nan,
            "arith.maximumf": -math.inf,
            "arith.minimumf": math.inf,
        }.get(name)
    bits = BITS[element]
    if bits == 1:
        return {"arith.andi": True, "arith.ori": False, "arith.xori": False, "arith.addi": False}.get(name)
    return {
        "arith.addi": 0,
        "arith.ori": 0,
        "arith.xori": 0,
        "arith.maxui": 0,
        "arith.muli": 1,
        "arith.andi": -1,
        "arith.minui": -1,
        "arith.maxsi": -(1 << (bits - 1)),
        "arith.minsi": (1 << (bits - 1)) - 1,
    }.get(name)

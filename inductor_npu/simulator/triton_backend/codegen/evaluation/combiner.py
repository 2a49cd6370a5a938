"""The combine function of a reduction or scan, on scalars and vectors of any width."""

from __future__ import annotations

from collections.abc import Sequence

from ...ttir.ir import Op, Value
from ..analysis.combining import identity_of
from ..emit.context import CodegenContext
from ..errors import UnsupportedOperation
from ..forms.lane import Lane, Uniform, Vector
from ..forms.types import element_of
from ..forms.value import Val

Values = list[Val]


class Combiner:
    """Applies the combine function of a tt.reduce or tt.scan."""

    def __init__(self, context: CodegenContext, op: Op) -> None:
        self.context, self.b, self.op = context, context.b, op
        self.block = op.regions[0]
        self.elements = [element_of(r.type) for r in op.results]

    def __call__(self, left: Sequence[Val], right: Sequence[Val]) -> Values:
        """Combines two tuples of scalars or of vectors, `left` being first in order."""
        lanes = left[0].lanes
        form = Vector if lanes else Uniform
        known: dict[Value, Lane] = {arg: form(v) for arg, v in zip(self.block.arguments, (*left, *right))}
        for op in self.block.ops:
            if op.name in ("tt.reduce.return", "tt.scan.return"):
                forms = self.context.lanes
                results = [known[o] if o in known else self.context.lane(o) for o in op.operands]
                return [forms.vector(r, lanes) if lanes else forms.scalar(r) for r in results]
            operands = [known[o] if o in known else self.context.lane(o) for o in op.operands]
            result = self.context.elementwise.emit(op, operands, lanes)
            for value, lane in zip(op.results, result if isinstance(result, tuple) else (result,)):
                known[value] = lane
        raise UnsupportedOperation(self.op, "its combine function returns nothing")

    def expect(self, carried: Sequence[Val], initial: Sequence[Val], values: Sequence[Val]) -> None:
        """What is known of the results so far, `carried`, because it holds of the first and of all that is combined
        with them.
        """
        if identity_of(self.op) is not None and self.block.ops[0].name == "arith.maximumf":
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

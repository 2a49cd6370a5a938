"""One-hot gathers: `value` is computed for the chosen number alone."""

from __future__ import annotations

import math

from ...ttir.ir import Op, Value
from ..analysis.combining import IDENTITIES
from ..emit.context import CodegenContext
from ..evaluation.evaluator import ChunkEvaluator
from ..forms.coordinate import Coordinates
from ..forms.lane import Index, Lane, Vector
from ..forms.scratch import row_major
from ..forms.types import element_bytes, element_of, is_float, shape_of
from ..forms.value import Val
from ..rewriting.one_hot_gather import OneHotGather


class _AtNumber(ChunkEvaluator):
    """Values where `numbers`, if there are any, are `number`; loads are masked off in lanes that are not `inside`."""

    def __init__(self, context: CodegenContext, width: int, numbers: Value | None, number: Lane, inside: Val) -> None:
        super().__init__(context, width)
        self._numbers, self._number, self._inside = numbers, number, inside

    def evaluate(self, value: Value, coordinates: Coordinates) -> Lane:
        return self._number if value is self._numbers else super().evaluate(value, coordinates)

    def _mask(self, mask: Lane | None) -> Lane | None:
        if mask is None:
            return Vector(self._inside)
        return Vector(self.b.binary("and", self.context.lanes.vector(mask, self.width), self._inside))


def emit_one_hot_gather(context: CodegenContext, op: Op) -> None:
    """Writes `op`; its result is kept in scratch, row-major."""
    b, memory = context.b, context.memory
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    context.work += math.prod(shape) * 4
    home = context.scratch.allocate(shape, element, row_major(shape))
    inner = max(axis for axis, extent in enumerate(shape) if extent > 1)
    widest = max(element_bytes(element), *(element_bytes(element_of(o.type)) for o in op.operands[:2]))
    width = max(2, min(context.options.vector_bits // 8 // widest, shape[inner]))
    evaluator = ChunkEvaluator(context, width)
    loops, at = [], [evaluator.maps.zero] * len(shape)
    for axis, extent in enumerate(shape):
        if extent > 1:
            loops.append(b.open_loop(0, extent, width if axis == inner else 1))
            at[axis] = Index(loops[-1].iv, int(axis == inner), "i64")
    value = _value(context, op, evaluator, at, width)
    memory.store(memory.buffer_address(home, list(at), width), Vector(value), None, element, width)
    for loop in reversed(loops):
        b.close_loop(loop)
    context.places[op.result] = home


def _value(context: CodegenContext, op: Op, evaluator: ChunkEvaluator, at: list[Index], width: int) -> Val:
    """The results of one chunk, at the coordinates `at`."""
    gather: OneHotGather = op.attrs["gather"]
    b, lanes, element = context.b, context.lanes, element_of(op.result.type)
    choice, value, *conditions = op.operands
    before = [*at[: gather.axis], evaluator.maps.zero, *at[gather.axis :]]
    narrow = [c if extent > 1 else evaluator.maps.zero for c, extent in zip(before, shape_of(choice.type))]
    number, inside = _whole(context, gather, lanes.vector(evaluator.evaluate(choice, tuple(narrow)), width))
    there = _AtNumber(context, width, gather.numbers, Vector(number), inside)
    first = b.constant("i32", gather.low, width)
    position = Vector(b.cast("sext", b.binary("sub", number, first), "i64"))
    coordinates: Coordinates = (*at[: gather.axis], position, *at[gather.axis :])
    on = inside
    for condition in conditions:
        on = b.binary("and", on, lanes.vector(there.evaluate(condition, coordinates), width))
    found = lanes.vector(there.evaluate(value, coordinates), width)
    result = b.select(on, found, b.constant(element, IDENTITIES[gather.combine], width))
    if gather.combine == "arith.addf":  # to others that are 0.0: no sum is -0.0
        return context.floats.binary("fadd", result, b.constant(element, 0.0, width))
    return result


def _whole(context: CodegenContext, gather: OneHotGather, choice: Val) -> tuple[Val, Val]:
    """The chosen numbers as i32, of those that there are, and in which lanes there is one."""
    b, width, element = context.b, choice.lanes, choice.element
    kind = float if is_float(element) else int
    least, most = (b.constant(element, kind(end), width) for end in (gather.low, gather.high - 1))
    compared = ("fcmp oge", "fcmp ole") if is_float(element) else ("icmp sge", "icmp sle")
    inside = b.binary("and", b.compare(compared[0], choice, least), b.compare(compared[1], choice, most))
    number = b.select(inside, choice, least)
    if is_float(element):
        whole = b.cast("fptosi", number, "i32")
        return whole, b.binary("and", inside, b.compare("fcmp oeq", b.cast("sitofp", whole, element), choice))
    return (number if element == "i32" else b.cast("trunc", number, "i32")), inside

"""The distance, in elements, between neighbours along each axis of a tile of integers or pointers. It decides the axis
to vectorise.
"""

from __future__ import annotations

from ...ttir.ir import Dense, Op, Value, splat_number
from ..forms.types import element_of, shape_of

_SAME = frozenset(
    {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.bitcast", "arith.index_castui"}
)
_DIVISIONS = frozenset({"arith.remsi", "arith.remui", "arith.divsi", "arith.divui"})
CHUNK = 16  # lanes that should not cross a multiple of a divisor


class Strides:
    """Only a heuristic: code is right whatever axis is chosen."""

    def __init__(self) -> None:
        self._known: dict[tuple[Value, int], int | None] = {}

    def along(self, value: Value, axis: int) -> int | None:
        """The constant difference of neighbours along `axis`; None where it is not constant or not known."""
        shape = shape_of(value.type)
        if axis >= len(shape) or shape[axis] == 1:
            return 0
        key = (value, axis)
        if key not in self._known:
            self._known[key] = None  # a loop-carried value that depends on itself
            self._known[key] = self._of(value, axis)
        return self._known[key]

    def is_position(self, value: Value) -> bool:
        """Whether `value` is an integer that a chunk, along any axis, needs one scalar for."""
        shape = shape_of(value.type)
        if element_of(value.type) not in ("i32", "i64"):
            return False
        op = value.owner
        if op is not None and op.name in _DIVISIONS:
            number = _splat_integer(op.operands[1])
            if number is None or number % CHUNK:
                return False
        return all(self.along(value, axis) is not None for axis in range(len(shape)))

    def _of(self, value: Value, axis: int) -> int | None:
        op = value.owner
        if op is None:
            return None
        name = op.name
        if name == "tt.make_range":
            return 1
        if name == "tt.splat":
            return 0
        if name == "arith.constant":
            return 0 if not isinstance(op.attrs["value"], Dense) or op.attrs["value"].is_splat else None
        if name in _SAME:
            return self.along(op.operands[0], axis)
        if name in ("tt.addptr", "arith.addi", "arith.subi"):
            left, right = (self.along(o, axis) for o in op.operands)
            if left is None or right is None:
                return None
            return left - right if name == "arith.subi" else left + right
        if name == "arith.muli":
            return self._product(op, axis)
        if name in _DIVISIONS:
            return self._division(op, axis)
        return self._view(op, axis)

    def _product(self, op: Op, axis: int) -> int | None:
        left, right = (self.along(o, axis) for o in op.operands)
        if left == 0 and right == 0:
            return 0
        for stride, factor in ((left, op.operands[1]), (right, op.operands[0])):
            number = _splat_integer(factor)
            if stride is not None and number is not None:
                return stride * number
        return None

    def _division(self, op: Op, axis: int) -> int | None:
        """Along runs that do not cross a multiple: what holds nearly everywhere."""
        stride, number = self.along(op.operands[0], axis), _splat_integer(op.operands[1])
        if stride is None or number is None or number <= 0:
            return 0 if stride == 0 else None
        if op.name.startswith("arith.rem"):
            return stride if stride < number else 0
        return 0 if stride < number else stride // number

    def _view(self, op: Op, axis: int) -> int | None:
        (source,) = op.operands[:1] or (None,)
        if source is None:
            return None
        if op.name == "tt.expand_dims":
            inserted = op.attrs["axis"]
            return self.along(source, axis - (axis > inserted))
        if op.name == "tt.broadcast":
            return 0 if shape_of(source.type)[axis] == 1 else self.along(source, axis)
        if op.name == "tt.trans":
            return self.along(source, op.attrs["order"][axis])
        if op.name == "tt.reshape":
            return self._reshaped(op, axis)
        return None

    def _reshaped(self, op: Op, axis: int) -> int | None:
        """Through a reshape that only adds or drops axes of one element."""
        shape, source = shape_of(op.result.type), shape_of(op.operands[0].type)
        here = [i for i, d in enumerate(shape) if d > 1]
        there = [i for i, d in enumerate(source) if d > 1]
        if [shape[i] for i in here] != [source[i] for i in there]:
            return None
        return self.along(op.operands[0], there[here.index(axis)])


def _splat_integer(value: Value) -> int | None:
    """The number of which `value` consists, if it is an integer constant."""
    number = splat_number(value, ("tt.splat", "tt.broadcast", "arith.extsi", "arith.extui"))
    return int(number) if isinstance(number, int) else None

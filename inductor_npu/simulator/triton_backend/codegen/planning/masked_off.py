"""Whether a loop has an effect where masks are off: none, if it stores nothing there and reduces the identity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...ttir.ir import Op, Value, splat_number
from ..analysis.combining import identity_of
from ..analysis.operations import VIEWS
from ..forms.lane import Uniform
from ..forms.scratch import Place
from ..forms.types import element_of, is_float
from .steps import KeptRoot, Root

Number = int | float | bool


def adds_nothing(roots: Sequence[Root], places: Mapping[Value, Place], off: set[Value] | None) -> bool:
    """Whether `roots` write nothing, and reduce what changes no result, where all comparisons in `off` are false; None:
    all integer comparisons.
    """
    behind = _Behind(places, off)
    return all(_adds_nothing(behind, root) for root in roots)


def _adds_nothing(behind: _Behind, root: Root) -> bool:
    if isinstance(root, KeptRoot):
        return False
    if root.op.name == "tt.store":
        return len(root.op.operands) > 2 and behind.number(root.op.operands[2]) is False
    if root.op.name != "tt.reduce":
        return False
    identity, found = identity_of(root.op), behind.number(root.op.operands[0])
    if identity is None or found is None:
        return False
    return found == identity[0] or (math.isnan(found) and math.isnan(identity[0]))


class _Behind:
    """Elements where some comparisons are known to be false, as numbers where they do not depend on more than that."""

    def __init__(self, places: Mapping[Value, Place], off: set[Value] | None) -> None:
        self.places, self.off = places, off
        self._known: dict[Value, Number | None] = {}

    def number(self, value: Value) -> Number | None:
        if value not in self._known:
            self._known[value] = self._of(value)
        return self._known[value]

    def _of(self, value: Value) -> Number | None:
        place, op = self.places.get(value), value.owner
        if place is not None:
            return place.val.constant if isinstance(place, Uniform) else None
        if op is None:
            return None
        if op.name == "arith.constant":
            number = splat_number(value)
            return number if number is None or element_of(value.type) != "i1" else bool(number)
        if op.name == "arith.cmpi":
            return False if self.off is None or op.result in self.off else None
        if op.name == "tt.splat" or (op.name in VIEWS and len(op.operands) == 1):
            return self.number(op.operands[0])
        if op.name == "tt.load":
            if len(op.operands) < 2 or self.number(op.operands[1]) is not False:
                return None
            return self.number(op.operands[2]) if len(op.operands) > 2 else 0
        return self._computed(op)

    def _computed(self, op: Op) -> Number | None:
        numbers = [self.number(operand) for operand in op.operands]
        if op.name in ("arith.andi", "arith.ori") and element_of(op.result.type) == "i1":
            deciding = op.name == "arith.ori"
            return deciding if any(number is deciding for number in numbers) else None
        if op.name == "arith.xori" and element_of(op.result.type) == "i1":
            return None if None in numbers else numbers[0] != numbers[1]
        if op.name == "arith.select":
            chosen = numbers[0]
            return None if not isinstance(chosen, bool) else numbers[1 if chosen else 2]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers) or not is_float(element_of(op.result.type)):
            return None
        if op.name == "arith.mulf":
            return known[0] * known[1]
        if op.name == "arith.addf":
            return known[0] + known[1]
        if op.name in ("arith.maximumf", "arith.minimumf") and not any(map(math.isnan, known)):
            return max(known) if op.name == "arith.maximumf" else min(known)
        if op.name == "math.absf":
            return abs(known[0])
        if op.name in ("arith.extf", "arith.truncf", "tt.fp_to_fp") and known[0] in (0, math.inf, -math.inf):
            return known[0]
        return None

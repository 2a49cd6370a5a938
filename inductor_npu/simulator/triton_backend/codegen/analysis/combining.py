"""The combine operation of a reduction or scan, and its identity."""

from __future__ import annotations

import math

from ...ttir.ir import Op
from ..forms.types import BITS, element_of, is_float


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


def identity_of(reduction: Op) -> list[int | float] | None:
    """Values that leave any other unchanged when combined with it, for the usual functions of one value."""
    function = reduction.regions[0]
    if len(function.ops) != 2 or len(function.arguments) != 2:
        return None
    op, element = function.ops[0], element_of(reduction.results[0].type)
    if set(op.operands) != set(function.arguments) or function.ops[1].operands != op.results:
        return None
    number = _identity(op.name, element)
    return None if number is None else [number]

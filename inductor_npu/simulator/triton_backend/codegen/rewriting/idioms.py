"""Constructs that kernels spell out because Ascend's compiler lacks them, and for which the host has an instruction."""

from __future__ import annotations

from ...ttir.ir import Op, Value, splat_number
from ..forms.types import element_of

_BITCASTS = ("tt.bitcast", "arith.bitcast")
_SIGN = -(2**31)  # the sign bit of an fp32, as i32
_TO_WHOLE = 2.0**23  # from here on every fp32 is a whole number


def rounded_to_even(op: Op) -> Value | None:
    """The fp32 `x` of which `op` is the nearest whole number, halves to the even one; None where it is not.

    That is `(|x| + 2^23) - 2^23`, or |x| where that is 2^23 and more, with the sign bit of x
    (`device_functions.round_to_even`).
    """
    if op.name not in _BITCASTS or element_of(op.result.type) != "f32":
        return None
    parts = _operands(op.operands[0], "arith.ori")
    for magnitude, sign in (parts, parts[::-1]) if parts else ():
        signed = _operands(sign, "arith.andi")
        (chosen,) = _operands(magnitude, *_BITCASTS) or (None,)
        if chosen is None or not signed or splat_number(signed[1]) != _SIGN:
            continue
        (x,) = _operands(signed[0], *_BITCASTS) or (None,)
        if x is not None and element_of(x.type) == "f32" and _is_rounded_magnitude(chosen, x):
            return x
    return None


def _is_rounded_magnitude(value: Value, x: Value) -> bool:
    chosen = _operands(value, "arith.select")
    if not chosen:
        return False
    condition, rounded, magnitude = chosen
    compared, comparison = _operands(condition, "arith.cmpf"), condition.owner
    lowered = _operands(rounded, "arith.subf")
    raised = _operands(lowered[0], "arith.addf") if lowered else ()
    if not compared or not raised or comparison is None or comparison.attrs["predicate"] != "olt":
        return False
    constants = (splat_number(compared[1]), splat_number(lowered[1]), splat_number(raised[1]))
    same = compared[0] is magnitude and raised[0] is magnitude
    return same and constants == (_TO_WHOLE,) * 3 and _operands(magnitude, "math.absf") == (x,)


def _operands(value: Value, *names: str) -> tuple[Value, ...]:
    """The operands of the operation that makes `value`, if it is one of `names`."""
    op = value.owner
    return tuple(op.operands) if op is not None and op.name in names else ()

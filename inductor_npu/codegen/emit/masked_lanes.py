"""Masked-lane values: what the lanes of a tile beyond the end of a row hold.

A reduction must ignore those lanes. A load gives them a value at little cost; a selection afterwards costs a mask and a
tile of the Unified Buffer. So the masked-lane value of a load stays open until a reduction asks for one, and is then
propagated through the operators between them: with -inf loaded for the maximum of a softmax, exp(x - maximum) is 0, as
its sum needs.

Only numbers that a value's dtype represents are propagated: no integer is -inf, and results that are rounded or wrap
are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd import constant_repr
from torch._inductor.utils import DelayReplaceLine

from inductor_npu.codegen.emit.operands import FLOATS8
from inductor_npu.codegen.emit.values import Load, MaskedValue, Result, TileValue

# Masked-lane values that are tried where the identity itself does not give the identity.
_CANDIDATES = (0.0, -math.inf, math.inf, 1.0)

# Beyond this not every integer is a float.
_EXACT = 1 << 53

_PLACE = "<OTHER>"


_OPERATORS: dict[str, Callable[..., float | None]] = {
    "sub": lambda a, b: a - b if a is not None and b is not None else None,
    # -inf, and NaN in rows that are NaN in all their lanes.
    "sub_own_maximum": lambda a: a if a == -math.inf else None,
    "add": lambda a, b: a + b if a is not None and b is not None else None,
    "mul": lambda a, b: a * b if a is not None and b is not None else None,
    "neg": lambda a: -a if a is not None else None,
    "abs": lambda a: abs(a) if a is not None else None,
    "exp": lambda a: math.exp(min(a, 700.0)) if a is not None else None,
    "relu": lambda a: max(a, 0.0) if a is not None else None,
    "square": lambda a: a * a if a is not None else None,
    "to_dtype": lambda a, *_: a,
}


def _value(masked_value: MaskedValue, trial: float | None) -> float | None:
    """The number that `masked_value` evaluates to if all open loads take the value `trial`."""
    if isinstance(masked_value, Load):
        return _held(trial if masked_value.masked_value is None else masked_value.masked_value, masked_value.dtype)
    if isinstance(masked_value, Result):
        operands = (_value(operand, trial) for operand in masked_value.operands)
        return _held(_OPERATORS[masked_value.operator](*operands), masked_value.dtype)
    return masked_value


def _held(number: float | None, dtype: torch.dtype | None) -> float | None:
    """`number` if `dtype` represents it, None otherwise."""
    if number is None or dtype is None:
        return None
    if dtype == torch.bool:
        return number if number in (0.0, 1.0) else None
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return number if number.is_integer() and limits.min <= number <= limits.max else None
    if not math.isfinite(number):
        return None if dtype is torch.float8_e4m3fn else number
    precision = torch.finfo(dtype)
    steps = math.ldexp(math.frexp(number)[0], 1 - int(math.log2(precision.eps)))
    return number if steps.is_integer() and (not number or precision.tiny <= abs(number) <= precision.max) else None


def _open_loads(masked_value: MaskedValue) -> Iterable[Load]:
    if isinstance(masked_value, Load) and masked_value.masked_value is None:
        yield masked_value
    if isinstance(masked_value, Result):
        for operand in masked_value.operands:
            yield from _open_loads(operand)


def masked_value_text(number: float | None, dtype: torch.dtype | None) -> str:
    """Text of the `other` argument of a load of elements of type `dtype`: Triton does not convert an integer to a float
    of 8 bits.
    """
    number = number or 0
    return constant_repr(float(number) if dtype in FLOATS8 else number)


def take_masked_value(value: TileValue, source: TileValue) -> None:
    """Records that `value` is `source` in another dtype or order."""
    if source.masked_value is not None:
        value.masked_value = source.masked_value


class MaskedLanes:
    """Chooses the masked-lane values of a kernel's loads, and propagates them through its values."""

    def __init__(self) -> None:
        self._latest: Load | None = None

    def load(self, line: str) -> Any:
        """Returns the line of a load, ending in ")", whose masked-lane value is chosen later."""
        load = self._latest = Load()

        def masked_value() -> str:
            if load.masked_value is None:
                return ""
            is_whole = math.isfinite(load.masked_value) and load.masked_value.is_integer()
            return f", other={masked_value_text(int(load.masked_value) if is_whole else load.masked_value, load.dtype)}"

        return DelayReplaceLine(_PLACE, masked_value, f"{line[:-1]}{_PLACE})")

    def loaded(self, value: TileValue) -> None:
        """Records that `value` is the result of the latest such line; a value that was loaded before keeps its own."""
        if self._latest is not None:
            self._latest.dtype = value.dtype
            value.masked_value = value.masked_value or self._latest
            self._latest = None

    def computed(self, operator: str, operands: Sequence[Any], value: Any) -> None:
        """Records that `value` is the result of `operator` for `operands`."""
        if operator not in _OPERATORS or not isinstance(value, CSEVariable):
            return
        if operator == "sub" and operands[0] == getattr(operands[1], "maximum_of", None):
            operator, operands = "sub_own_maximum", operands[:1]
        values = tuple(self._operand(operand) for operand in operands)
        if any(isinstance(masked_value, (Load, Result)) for masked_value in values):
            value.masked_value = value.masked_value or Result(operator, value.dtype, values)

    def _operand(self, operand: Any) -> MaskedValue:
        if isinstance(operand, (int, float)):
            return float(operand)
        if not isinstance(operand, CSEVariable):
            return None
        if operand.masked_value is not None:
            return operand.masked_value
        if operand.bounds.is_singleton() and not operand.bounds.is_bool and not operand.shape:
            return float(operand.bounds.lower)
        return None

    def fill(self, value: TileValue, identity: float) -> bool:
        """Returns whether the masked lanes of `value` hold `identity`; loads that were open until now take the value
        that this needs.
        """
        if abs(identity) > _EXACT and math.isfinite(identity):
            return False
        masked_value = value.masked_value
        open_loads = list(_open_loads(masked_value))
        for trial in (float(identity), *_CANDIDATES) if open_loads else (None,):
            if _value(masked_value, trial) == identity:
                for load in open_loads:
                    load.masked_value = trial
                return True
        return False

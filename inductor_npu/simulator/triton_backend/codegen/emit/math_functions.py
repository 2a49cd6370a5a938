"""Math functions: those that LLVM turns into instructions as intrinsics, all others from mathlib."""

from __future__ import annotations

from collections.abc import Sequence

from ...libdevice import symbol_parts
from ...mathlib.library import Library, UnknownFunction, name_for
from ..forms.value import Val
from .floats import Floats

_FLOAT_INTRINSICS = {
    "absf": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "floor": "floor",
    "fma": "fma",
    "roundeven": "roundeven",
    "sqrt": "sqrt",
    "trunc": "trunc",
}
_BIT_INTRINSICS = {"ctpop": "ctpop", "ctlz": "ctlz", "cttz": "cttz", "absi": "abs"}
_LIBRARY_NAMES = {"powf": "pow", "fpowi": "pow"}
# `tl.math.tanh` and others of Ascend's Triton call its own libdevice, with a suffix for the type (f: fp32, Dh: fp16).
_ASCEND_NAMES = {
    "__hmf_atanDh": "atan",
    "__hmf_atanf": "atan",
    "__hmf_isinf": "isinf",
    "__hmf_isnan": "isnan",
    "__hmf_log1pDh": "log1p",
    "__hmf_log1pf": "log1p",
    "__hmf_powf": "pow",
    "__hmf_roundf": "round",
    "__hmf_tanDh": "tan",
    "__hmf_tanf": "tan",
    "__hmf_tanhDh": "tanh",
    "__hmf_tanhf": "tanh",
}
_FLAGGED = frozenset({"ctlz", "cttz", "absi"})  # take an i1: whether zero (the least number) gives poison


class MathFunctions:
    """Writes calls of math functions, and collects the library that they need."""

    def __init__(self, floats: Floats) -> None:
        self.floats, self.b = floats, floats.b
        self.library = Library()

    def emit(self, name: str, values: Sequence[Val], element: str) -> Val | None:
        """The function by MLIR's name in the math dialect; None where there is none."""
        if name in _FLOAT_INTRINSICS:
            intrinsic = _FLOAT_INTRINSICS[name]
            result = self.floats.apply(
                values, element, lambda *v: self.b.intrinsic(intrinsic, (v[0].element, v[0].lanes), v)
            )
            result.bits_are_ordered = name == "absf"
            return result
        if name in _BIT_INTRINSICS:
            return self._bits(name, values[0])
        return self._typed(self.library_call(_LIBRARY_NAMES.get(name, name), values), element)

    def extern(self, symbol: str, values: Sequence[Val], element: str) -> Val | None:
        """A function of `triton.language.extra.libdevice`, by its symbol there; None where there is none."""
        if symbol in _ASCEND_NAMES:
            return self._typed(self.library_call(_ASCEND_NAMES[symbol], values), element)
        try:
            name, type_ = symbol_parts(symbol)
        except ValueError:
            return None
        return self._typed(self.library_call(name_for(name, type_), values), element)

    def _typed(self, result: Val | None, element: str) -> Val | None:
        if result is None or result.element == element:
            return result
        if element == "i1":
            return self.b.cast("trunc", result, element)
        return self.b.cast("zext", result, element) if result.element == "i1" else self.b.retype(result, element)

    def _bits(self, name: str, value: Val) -> Val:
        operands = [value]
        if name in _FLAGGED:
            operands.append(self.b.constant("i1", False))
        return self.b.intrinsic(
            _BIT_INTRINSICS[name], (value.element, value.lanes), operands, overloads=((value.element, value.lanes),)
        )

    def required_call(self, name: str, values: Sequence[Val]) -> Val:
        """A call of a function that mathlib has for every integer."""
        result = self.library_call(name, values)
        if result is None:
            raise UnknownFunction(f"mathlib has no {name} of {', '.join(str(v.type) for v in values)}")
        return result

    def library_call(self, name: str, values: Sequence[Val]) -> Val | None:
        """A call of a mathlib function; f16 and bf16 arguments are passed as they are."""
        elements = tuple("i64" if v.element == "index" else v.element for v in values)
        lanes = values[0].lanes or 1
        try:
            function = self.library.function(name, elements, lanes)
        except UnknownFunction:
            return None
        if values[0].lanes == 1:  # mathlib has scalars, not vectors of one
            scalars = [self.b.extract(v, 0) for v in values]
            result = self.b.pure(function.result, 0, function.call(*(v.text for v in scalars)), *scalars)
            return self.b.pure(function.result, 1, f"insertelement <1 x {result.type}> poison, {result}, i32 0", result)
        return self.b.pure(function.result, values[0].lanes, function.call(*(v.text for v in values)), *values)

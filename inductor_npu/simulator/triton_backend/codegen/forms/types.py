"""MLIR element types, by name, in LLVM's spelling.

bf16 and fp8 are carried as their bits: LLVM's own bfloat conversions flush denormals on some hosts and call library
functions on others, so `emit/conversions.py` writes them out. Pointers are named "ptr".
"""

from __future__ import annotations

import functools

from ...mathlib import builder as mathlib
from ...ttir.ir import PointerType, ScalarType, TensorType, Type

# mathlib's scalars, and those that only code has.
LLVM_TYPES = {**mathlib.LLVM_TYPES, "index": "i64", "ptr": "ptr"}
BITS = {**mathlib.BIT_WIDTHS, "index": 64, "ptr": 64}
NARROW_FLOATS = frozenset({"f16", "bf16", "f8E4M3FN", "f8E5M2"})
FLOATS = NARROW_FLOATS | {"f32", "f64"}
_MANGLED = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


def element_of(type_: Type) -> str:
    """The name of the element type of a tensor or of a scalar; "ptr" for every pointer."""
    if isinstance(type_, TensorType):
        type_ = type_.element
    if isinstance(type_, ScalarType):
        return type_.name
    if isinstance(type_, PointerType):
        return "ptr"
    raise TypeError(f"{type_} has no elements that code is written for")


def pointee_of(type_: Type) -> str:
    """The element name that a pointer, or a tensor of pointers, points at."""
    if isinstance(type_, TensorType):
        type_ = type_.element
    if not isinstance(type_, PointerType):
        raise TypeError(f"{type_} is no pointer")
    return element_of(type_.pointee)


def shape_of(type_: Type) -> tuple[int, ...]:
    """The shape of a tensor; that of a scalar is empty."""
    return type_.shape if isinstance(type_, TensorType) else ()


def element_bytes(element: str) -> int:
    """Bytes of one element in memory; i1 takes a byte."""
    return max(1, BITS[element] // 8)


def is_float(element: str) -> bool:
    return element in FLOATS


def is_integer(element: str) -> bool:
    return element not in FLOATS and element != "ptr"


@functools.cache
def llvm_type(element: str, lanes: int) -> str:
    """`lanes` elements; 0 lanes mean a scalar (one lane is the vector <1 x T>)."""
    scalar = LLVM_TYPES[element]
    return scalar if lanes == 0 else f"<{lanes} x {scalar}>"


@functools.cache
def mangled(element: str, lanes: int) -> str:
    """The type as it appears in the name of an overloaded intrinsic."""
    scalar = _MANGLED.get(LLVM_TYPES[element], LLVM_TYPES[element])
    return scalar if lanes == 0 else f"v{lanes}{scalar}"


def wrap(number: int, element: str) -> int:
    """The signed number that an integer of type `element` holds of `number`."""
    return signed(number, BITS[element])


@functools.cache
def limits(element: str) -> tuple[int, int]:
    """The least and the largest number of as many bits as `element` has, signed."""
    limit = 1 << (BITS[element] - 1)
    return -limit, limit - 1


def signed(number: int, bits: int) -> int:
    """The signed number that `bits` bits hold of `number`."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number

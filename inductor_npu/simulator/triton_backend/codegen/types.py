"""MLIR element types, by name, in LLVM's spelling.

bf16 and fp8 are carried as their bits: LLVM's own bfloat conversions flush denormals on some hosts and call library
functions on others, so `conversions.py` writes them out. Pointers are named "ptr".
"""

from __future__ import annotations

import functools
import math
import struct

from ..mathlib import builder as mathlib
from ..ttir.ir import PointerType, ScalarType, TensorType, Type

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


def bf16_bits(number: float) -> int:
    """A Python float rounded to bf16, as its 16 bits."""
    single = to_f32(number)
    (bits,) = struct.unpack("<I", struct.pack("<f", single))
    if math.isnan(number):
        return (bits >> 16) | 0x40
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def to_f32(number: float) -> float:
    """Rounded to f32; a finite number beyond its range becomes infinite."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _to_f16_bits(number: float) -> int:
    try:
        return struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError:
        return 0xFC00 if number < 0 else 0x7C00


def literal(element: str, number: int | float | bool) -> str:
    """A scalar constant in LLVM's spelling; a float is rounded to the element type."""
    if element == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    if element == "f32":  # LLVM writes a float constant as the double of the same value
        return f"0x{struct.unpack('<Q', struct.pack('<d', to_f32(float(number))))[0]:016X}"
    if element == "f16":
        return f"0xH{_to_f16_bits(float(number)):04X}"
    if element == "bf16":
        return str(_signed(bf16_bits(float(number)), 16))
    if element == "ptr":
        return "null" if number == 0 else f"inttoptr (i64 {int(number)} to ptr)"
    if element in FLOATS:
        from .conversions import fp8_bits

        return str(_signed(fp8_bits(element, float(number)), 8))
    if element == "i1":
        return "true" if number else "false"
    return str(_signed(int(number), BITS[element]))


def wrap(number: int, element: str) -> int:
    """The signed number that an integer of type `element` holds of `number`."""
    return _signed(number, BITS[element])


@functools.cache
def limits(element: str) -> tuple[int, int]:
    """The least and the largest number of as many bits as `element` has, signed."""
    limit = 1 << (BITS[element] - 1)
    return -limit, limit - 1


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


__all__ = [
    "BITS",
    "FLOATS",
    "LLVM_TYPES",
    "NARROW_FLOATS",
    "ScalarType",
    "bf16_bits",
    "element_bytes",
    "element_of",
    "is_float",
    "is_integer",
    "limits",
    "literal",
    "llvm_type",
    "mangled",
    "pointee_of",
    "shape_of",
    "to_f32",
    "wrap",
]

"""Numbers as the bits of an element type, and constants in LLVM's spelling."""

from __future__ import annotations

import math
import struct

from .types import BITS, FLOATS, signed


def fp8_bits(element: str, number: float) -> int:
    """A Python float rounded to nearest even in fp8, as its 8 bits."""
    mantissa, bias, largest = (3, 7, 448.0) if element == "f8E4M3FN" else (2, 15, 57344.0)
    sign = 0x80 if math.copysign(1.0, number) < 0 else 0
    magnitude = abs(number)
    if math.isnan(number):
        return sign | 0x7F
    if math.isinf(number):
        return sign | (0x7F if mantissa == 3 else 0x7C)
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - bias) if magnitude else 1 - bias
    units = round(magnitude / 2.0 ** (exponent - mantissa))
    if units * 2.0 ** (exponent - mantissa) > largest:
        return sign | (0x7F if mantissa == 3 else 0x7C)
    return sign | (((exponent + bias - 1) << mantissa) + units)


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
        return str(signed(bf16_bits(float(number)), 16))
    if element == "ptr":
        return "null" if number == 0 else f"inttoptr (i64 {int(number)} to ptr)"
    if element in FLOATS:
        return str(signed(fp8_bits(element, float(number)), 8))
    if element == "i1":
        return "true" if number else "false"
    return str(signed(int(number), BITS[element]))

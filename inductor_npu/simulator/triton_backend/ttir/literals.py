"""Types, numbers and attributes of MLIR's text as Python values."""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache

from .ir import Dense, PointerType, ScalarType, TensorDescType, TensorType, Type
from .lexer import Lexer

SCALAR_TYPE = re.compile(r"(?:[su]?i\d+|index|none|bf16|f\d\w*)")
_SHAPE = re.compile(r"((?:\d+x)*)(.*)", re.DOTALL)


@lru_cache(maxsize=4096)
def type_from_text(text: str) -> Type:
    """The type that `text` spells, e.g. `tensor<16x!tt.ptr<f32>>`; ValueError if it is not one of TTIR's."""
    if text.startswith("tensor<"):
        match = _SHAPE.match(_without_encoding(text[len("tensor<") : -1]))
        assert match is not None, "the pattern matches every text"
        dimensions, element = match.groups()
        return TensorType(tuple(int(size) for size in dimensions.split("x")[:-1]), type_from_text(element))
    if text.startswith("!tt.ptr<"):
        return PointerType(type_from_text(_without_encoding(text[len("!tt.ptr<") : -1])))
    if text.startswith("!tt.tensordesc<"):
        inner = text[len("!tt.tensordesc<") : -1]
        block = type_from_text(inner if inner.startswith("tensor<") else f"tensor<{inner}>")
        assert isinstance(block, TensorType)
        return TensorDescType(block)
    if SCALAR_TYPE.fullmatch(text):
        return ScalarType(text)
    raise ValueError(f"not a type of TTIR: `{text}`")


def _without_encoding(text: str) -> str:
    """Drop what follows the first comma outside angle brackets: a tensor's layout, a pointer's address space."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            return text[:at]
    return text


def is_type_token(token: str) -> bool:
    """Whether a token begins (and, as lexed, is) a type."""
    return token[:1] == "!" or token.startswith(("tensor<", "vector<")) or SCALAR_TYPE.fullmatch(token) is not None


def read_type(lexer: Lexer) -> Type:
    """A type; `<T>`, as MLIR abbreviates where the kind is clear from the operation, is read as T."""
    if lexer.accept("<"):
        inner = read_type(lexer)
        lexer.expect(">")
        return inner
    token = lexer.peek()
    try:
        parsed = type_from_text(token)
    except ValueError as error:
        raise lexer.error(str(error)) from None
    lexer.at += 1
    return parsed


def read_string(token: str) -> str:
    """The text of a string literal: MLIR escapes with `\\n`, `\\t`, `\\\\`, `\\"` or two hex digits."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    escapes = {"n": b"\n", "t": b"\t", "\\": b"\\", '"': b'"'}
    out, at, data = bytearray(), 0, body.encode()
    while at < len(data):
        if data[at] != ord("\\"):
            out.append(data[at])
            at += 1
        elif (following := chr(data[at + 1])) in escapes:
            out += escapes[following]
            at += 2
        else:
            out.append(int(data[at + 1 : at + 3], 16))
            at += 3
    return out.decode(errors="replace")


_FLOAT_BITS = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}
# Formats without a struct code: exponent bits, mantissa bits, whether the top exponent holds infinity and NaN (IEEE
# 754).
_SMALL_FLOATS = {
    "f8E5M2": (5, 2, True),
    "f8E4M3FN": (4, 3, False),
    "f8E4M3": (4, 3, True),
}


def float_from_bits(bits: int, type_name: str) -> float:
    """The value of a float of type `type_name` with these bits; ValueError for a type of unknown layout."""
    if type_name == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    if type_name in _FLOAT_BITS:
        packed, unpacked = _FLOAT_BITS[type_name]
        return struct.unpack(unpacked, struct.pack(packed, bits))[0]
    if type_name in _SMALL_FLOATS:
        return _small_float(bits, *_SMALL_FLOATS[type_name])
    raise ValueError(f"a constant of type {type_name} written in bits")


def _small_float(bits: int, exponent_bits: int, mantissa_bits: int, ieee: bool) -> float:
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if exponent == top and ieee:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return float("nan")
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def _element_type(type_: Type | None) -> ScalarType | None:
    if isinstance(type_, TensorType):
        type_ = type_.element
    return type_ if isinstance(type_, ScalarType) else None


def _is_float(name: str) -> bool:
    return name.startswith(("f", "bf"))


def element_bits(type_: Type) -> int:
    """Bits of one number of a scalar type; 64 for index and for addresses."""
    digits = re.search(r"\d+", type_.name) if isinstance(type_, ScalarType) else None
    return int(digits[0]) if digits else 64


def number(token: str, type_: Type | None) -> int | float | bool:
    """The number that `token` spells for the element type of `type_`; hex spells the bits of a float."""
    element = _element_type(type_)
    name = element.name if element is not None else ""
    if token in ("true", "false"):
        return token == "true"
    is_float = _is_float(name)
    if "0x" in token:
        bits = int(token, 16)
        return float_from_bits(bits, name) if is_float else bits
    if is_float or "." in token:
        return float(token)
    value = int(token)
    return bool(value & 1) if name == "i1" else value


def _read_dense(lexer: Lexer) -> Dense:
    """`dense<1>`, `dense<[1, 2]>` or `dense<"0x...">`, then its type."""
    lexer.expect("<")
    tokens: list[str] = []
    is_list = lexer.peek() == "["
    while not lexer.accept(">"):
        token = lexer.take()
        if token not in ("[", "]", ","):
            tokens.append(token)
    lexer.expect(":")
    type_ = read_type(lexer)
    if tokens and tokens[0].startswith('"'):
        return _dense_from_bytes(lexer, bytes.fromhex(tokens[0][3:-1]), type_)
    values = tuple(number(token, type_) for token in tokens)
    return Dense(values if is_list or not values else values[0])


def _dense_from_bytes(lexer: Lexer, data: bytes, type_: Type) -> Dense:
    """Elements as MLIR writes long lists: raw bytes, little-endian, i1 packed to bits; one element is a splat."""
    if not isinstance(type_, TensorType) or not isinstance(type_.element, ScalarType):
        raise lexer.error(f"a list of numbers for a constant of type {type_}")
    name = type_.element.name
    count = math.prod(type_.shape)
    if name == "i1":
        if data in (b"\xff", b"\x00"):
            return Dense(data != b"\x00")
        return Dense(tuple(bool(data[i // 8] >> (i % 8) & 1) for i in range(count)))
    width = element_bits(type_.element) // 8
    chunks = [data[i : i + width] for i in range(0, len(data), width)]
    if _is_float(name):
        values = tuple(float_from_bits(int.from_bytes(chunk, "little"), name) for chunk in chunks)
    else:
        values = tuple(int.from_bytes(chunk, "little", signed=True) for chunk in chunks)
    if len(values) not in (1, count):
        raise lexer.error(f"{len(values)} elements for a constant of {count}")
    return Dense(values[0] if len(values) == 1 else values)


def _read_array(lexer: Lexer) -> list[object]:
    """`array<i32: 1, 0>`."""
    lexer.expect("<")
    type_ = read_type(lexer)
    values: list[object] = []
    if lexer.accept(":"):
        while not lexer.accept(">"):
            values.append(number(lexer.take(), type_))
            lexer.accept(",")
    else:
        lexer.expect(">")
    return values


def read_attribute(lexer: Lexer) -> object:
    """An attribute's value; its `: type` is consumed and decides how a number is read."""
    token = lexer.take()
    if token == "dense":
        return _read_dense(lexer)
    if token == "array":
        return _read_array(lexer)
    if token[0] == '"':
        return read_string(token)
    if token in ("true", "false"):
        if lexer.accept(":"):
            read_type(lexer)
        return token == "true"
    if token[0].isdigit() or (token[0] == "-" and len(token) > 1):
        type_ = read_type(lexer) if lexer.accept(":") else None
        return number(token, type_)
    if token == "[":
        values: list[object] = []
        while not lexer.accept("]"):
            values.append(read_attribute(lexer))
            lexer.accept(",")
        return values
    if token == "{":
        lexer.at -= 1
        return read_dictionary(lexer)
    if token[0] == "@":
        return symbol_name(token)
    if is_type_token(token):
        return type_from_text(token)
    if token[0] in "#_" or token[0].isalpha():
        return token  # an enumeration's keyword, or another dialect's attribute: kept as text
    lexer.at -= 1
    raise lexer.error(f"not an attribute: `{token}`")


def read_dictionary(lexer: Lexer) -> dict[str, object]:
    """`{name = value, unit}`; a name without a value is True."""
    lexer.expect("{")
    attrs: dict[str, object] = {}
    while not lexer.accept("}"):
        name = lexer.take()
        if name[0] == '"':
            name = read_string(name)
        attrs[name] = read_attribute(lexer) if lexer.accept("=") else True
        if not lexer.accept(",") and lexer.peek() != "}":
            raise lexer.error("expected `,` or `}` in an attribute dictionary")
    return attrs


def symbol_name(token: str) -> str:
    """`@name` or `@"any text"` without its marks."""
    return read_string(token[1:]) if token[1] == '"' else token[1:]

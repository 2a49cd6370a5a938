"""The types of the final IR as text -> data."""

from __future__ import annotations

import re
from functools import lru_cache

from .ir import ELEMENT_BITS, MemRefType, Type

_SPACE = re.compile(r"#hivm\.address_space<(\w+)>")
_STRIDED = re.compile(r"strided<\[([^\]]*)\](?:, offset: ([-\d?]+))?>")
_SHAPE = re.compile(r"((?:[\d?]+x)*)([A-Za-z]\w*)(.*)$", re.DOTALL)


@lru_cache(maxsize=65536)
def read_type(text: str) -> Type:
    """The type that `text` spells. Raises ValueError for a memref that is not understood."""
    text = text.strip()
    if not text.startswith("memref<"):
        return text
    if not text.endswith(">"):
        raise ValueError(f"memref type without an end {text!r}")
    shape, element, layout = _parts(text)
    space = _SPACE.search(layout)
    strided = _STRIDED.search(layout)
    rest = layout.replace(space.group(0) if space else "", "").replace(strided.group(0) if strided else "", "")
    if element not in ELEMENT_BITS or rest.strip(" ,"):
        raise ValueError(f"memref type {text!r}")
    if strided is None:
        strides: tuple[int | None, ...] = contiguous_strides(shape)
        offset: int | None = 0
    else:
        strides = tuple(_number(part) for part in strided.group(1).split(",") if part.strip())
        offset = _number(strided.group(2) or "0")
    return MemRefType(shape, strides, offset, element, space.group(1) if space else "")


def contiguous_strides(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Strides of a row-major buffer; None from the first axis outside of an axis of unknown size."""
    strides: list[int | None] = []
    step: int | None = 1
    for size in reversed(shape):
        strides.append(step)
        step = None if size is None or step is None else step * size
    return tuple(reversed(strides))


def split_types(text: str) -> list[str]:
    """The types, or expressions, of a comma-separated list, brackets respected."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[position - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _parts(text: str) -> tuple[tuple[int | None, ...], str, str]:
    match = _SHAPE.match(text[len("memref<") : -1])
    if match is None:
        raise ValueError(f"memref type {text!r}")
    return tuple(_number(size) for size in match.group(1).split("x") if size), match.group(2), match.group(3)


def _number(text: str) -> int | None:
    return None if text.strip() == "?" else int(text)

"""Tiles that are kept in scratch: their bytes, and the order of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .lane import Lane
from .types import element_bytes

SCRATCH_ALIGNMENT = 64  # bytes


@dataclass(eq=False, slots=True)
class Buffer:
    """A materialised tile in scratch: byte `offset`, element `strides`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str


# Where a value is: in LLVM values, as scalars are, or kept in scratch.
Place = Lane | Buffer


def held(element: str) -> str:
    """How an element is held in memory: i1 as a byte."""
    return "i8" if element == "i1" else element


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Dense strides in which neighbours along the last axis are adjacent."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def strides_with_innermost(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Dense strides in which neighbours along `axis` are adjacent and the other axes keep their order."""
    strides, step = [0] * len(shape), 1
    for a in (axis, *(a for a in reversed(range(len(shape))) if a != axis)) if shape else ():
        strides[a] = step
        step *= shape[a]
    return tuple(strides)


class Scratch:
    """The scratch memory of one kernel, given out from its begin on. `size`: how many bytes so far."""

    def __init__(self) -> None:
        self.size = 0

    def reserve(self, size: int) -> int:
        """The offset of `size` bytes, which is aligned."""
        offset = self.size
        self.size += -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        return offset

    def allocate(self, shape: tuple[int, ...], element: str, strides: tuple[int, ...]) -> Buffer:
        """A place for a tile; `strides` in elements."""
        return Buffer(self.reserve(math.prod(shape) * element_bytes(held(element))), shape, strides, element)

"""The forms that a chunk's value takes.

A chunk is `width` consecutive positions of one axis of a tile. A value at a chunk is

- `Uniform`: the same scalar in all lanes;
- `Index`: integers `first + step * lane`, the arithmetic of tile coordinates: of that sum, in which `first` is a 64-bit
  scalar, a lane holds the low bits that its type has. `settled` tells where that is the sum itself;
- `Address`: pointers `pointer + step * lane`, step in bytes;
- `Prefix`: a mask that holds in the first `count` lanes, where count may be negative or beyond the width; `edge`, if
  known, is a number outside of the innermost loop and one that counts in it, of which count is the difference;
- `Vector`: a vector of `width` elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from .value import Val


@dataclass(eq=False, slots=True)
class Uniform:
    """See the module's docstring, as for all forms."""

    val: Val

    @property
    def level(self) -> int:
        return self.val.level


@dataclass(eq=False, slots=True)
class Index:
    first: Val
    step: int
    element: str

    @property
    def level(self) -> int:
        return self.first.level


@dataclass(eq=False, slots=True)
class Address:
    pointer: Val
    step: int

    @property
    def level(self) -> int:
        return self.pointer.level


@dataclass(eq=False, slots=True)
class Prefix:
    count: Val
    edge: tuple[Val, Val] | None = None

    @property
    def level(self) -> int:
        return self.count.level


@dataclass(eq=False, slots=True)
class Vector:
    val: Val

    @property
    def level(self) -> int:
        return self.val.level


Lane = Uniform | Index | Address | Prefix | Vector


def is_uniform(lane: Lane) -> bool:
    """Whether all lanes are known to be equal."""
    return isinstance(lane, Uniform) or (isinstance(lane, (Index, Address)) and lane.step == 0)


def is_whole(mask: Lane | None, width: int) -> bool:
    """Whether a mask is known to hold in all lanes."""
    return isinstance(mask, Prefix) and mask.count.low >= width > 0

"""The position of a chunk in a tile: one coordinate per axis.

A coordinate is an `Index` (or a `Vector` of positions). Splitting an axis gives `Digit`s, whose values are computed on
demand only. Merging them again gives the original coordinate, so that chains of reshapes are free.
"""

from __future__ import annotations

from .lane import Index, Vector


class Digit:
    """`(whole // stride) % extent` of another coordinate `whole`, which has `size` positions."""

    __slots__ = ("extent", "size", "stride", "whole")

    def __init__(self, whole: Coordinate, stride: int, extent: int, size: int) -> None:
        self.whole, self.stride, self.extent, self.size = whole, stride, extent, size

    @property
    def level(self) -> int:
        return self.whole.level


class Pinned:
    """`whole` with its digit `(whole // stride) % extent` set to `digit`: a neighbour in a butterfly, as in bitonic
    sorts.
    """

    __slots__ = ("digit", "extent", "stride", "whole")

    def __init__(self, whole: Coordinate, stride: int, extent: int, digit: int) -> None:
        self.whole, self.stride, self.extent, self.digit = whole, stride, extent, digit

    @property
    def level(self) -> int:
        return self.whole.level


Coordinate = Index | Vector | Digit | Pinned
Coordinates = tuple[Coordinate, ...]

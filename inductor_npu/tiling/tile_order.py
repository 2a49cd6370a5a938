"""In which order the cores take the tiles of a matrix product, so that what they read again is still in L2.

Tiles are numbered in groups along one side of the result; inside a group, that side's index runs fastest. The operand
of the group's side is read once, if the part that a group needs stays in L2; the other operand once for each group.

    groups of 2 along the rows, 5 x 3 tiles      0 2 4
                                                 1 3 5
                                                 6 8 10
                                                 7 9 11
                                                 12 13 14
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a product: in how many `tiles` they are, and the bytes of the operand of one."""

    tiles: int
    block_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes of the whole operand."""
        return self.tiles * self.block_bytes


@dataclass(frozen=True)
class TileOrder:
    """Tiles in groups of `group` along the first side, if `is_along_first`, else along the second; with `bytes_read`
    from memory, the rest from L2. `is_usual`: the second side is one group, so that tiles are numbered as any kernel's.
    """

    is_along_first: bool
    group: int
    bytes_read: int
    is_usual: bool


def tile_order(first: Side, second: Side, result_bytes: int, l2: int) -> TileOrder:
    """Returns the order that reads the fewest bytes from memory; the usual one, in which the index of the second side
    runs fastest, if none is better. `result_bytes` are what a tile stores, `l2` the bytes of the cache.
    """
    orders = [_grouped(second, first, result_bytes, l2, False), _grouped(first, second, result_bytes, l2, True)]
    return min(orders, key=lambda order: order.bytes_read)


def _grouped(own: Side, other: Side, result_bytes: int, l2: int, is_along_first: bool) -> TileOrder:
    """The order in groups along `own`. Between two reads of a block of the group its other blocks pass through L2, a
    block of `other` that comes and one that goes, and the results of the group's tiles.
    """
    longest = (l2 - 2 * other.block_bytes) // (own.block_bytes + result_bytes)
    if longest < 1:
        everything = own.bytes * other.tiles + other.bytes * own.tiles
        return TileOrder(is_along_first, own.tiles, everything, not is_along_first)
    groups = -(-own.tiles // longest)
    group = -(-own.tiles // groups)  # of about the same length
    return TileOrder(is_along_first, group, own.bytes + groups * other.bytes, not is_along_first and groups == 1)

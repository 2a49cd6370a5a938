"""The order of a product's tiles reads the fewest bytes from memory: an L2 that drops what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from inductor_npu.tiling.tile_order import Side, TileOrder, tile_order

MIB = 1024**2


def tiles_in(order: TileOrder, first: int, second: int) -> Iterator[tuple[int, int]]:
    """The tiles of a `first` x `second` grid, one after the other."""
    along, then = (first, second) if order.is_along_first else (second, first)
    for start in range(0, along, order.group):
        for other in range(then):
            for own in range(start, min(start + order.group, along)):
                yield (own, other) if order.is_along_first else (other, own)


def read_from_memory(order: TileOrder, first: Side, second: Side, result_bytes: int, l2: int) -> int:
    """Bytes that one tile after the other reads beside the cache."""
    cached: OrderedDict[tuple[str, object], int] = OrderedDict()
    read = 0
    for tile in tiles_in(order, first.tiles, second.tiles):
        blocks = {("first", tile[0]): first.block_bytes, ("second", tile[1]): second.block_bytes}
        for block, size in blocks.items():
            read += 0 if block in cached else size
        for block, size in (blocks | {("result", tile): result_bytes}).items():
            cached[block] = size
            cached.move_to_end(block)
        while sum(cached.values()) > l2:
            cached.popitem(last=False)
    return read


sides = st.builds(Side, st.integers(1, 12), st.integers(1, 40))


@given(sides, sides, st.integers(1, 10), st.integers(0, 300))
def test_it_reads_no_more_than_it_says(first: Side, second: Side, result_bytes: int, l2: int) -> None:
    order = tile_order(first, second, result_bytes, l2)
    assert read_from_memory(order, first, second, result_bytes, l2) <= order.bytes_read


@given(sides, sides, st.integers(1, 10), st.integers(0, 300))
def test_it_is_every_tile_once(first: Side, second: Side, result_bytes: int, l2: int) -> None:
    order = tile_order(first, second, result_bytes, l2)
    every = [(row, column) for row in range(first.tiles) for column in range(second.tiles)]
    assert sorted(tiles_in(order, first.tiles, second.tiles)) == every
    assert not order.is_usual or list(tiles_in(order, first.tiles, second.tiles)) == every


def test_operands_that_fit_are_read_once_in_the_usual_order() -> None:
    rows, columns = Side(16, MIB), Side(8, 2 * MIB)
    order = tile_order(rows, columns, 65536, 192 * MIB)
    assert order.is_usual and order.bytes_read == rows.bytes + columns.bytes


def test_the_smaller_operand_stays_in_l2() -> None:
    """8192 x 8192 x 28672 in float16: a matrix of weights of a language model, which does not fit, and 8192 tokens."""
    tokens, weights = Side(64, 2 * MIB), Side(112, 4 * MIB)
    order = tile_order(tokens, weights, 65536, 192 * MIB)
    assert order.is_along_first and order.group == 64
    assert order.bytes_read == tokens.bytes + weights.bytes
    row_by_row = TileOrder(False, 112, 0, True)
    assert read_from_memory(row_by_row, tokens, weights, 65536, 192 * MIB) == 50 * order.bytes_read


def test_where_neither_fits_one_is_read_once_for_each_group() -> None:
    """16384 cubed in float32."""
    rows, columns = Side(128, 8 * MIB), Side(64, 16 * MIB)
    order = tile_order(rows, columns, 131072, 192 * MIB)
    assert not order.is_along_first and order.group == 10
    assert order.bytes_read == columns.bytes + 7 * rows.bytes


def test_a_cache_without_room_for_a_block_saves_nothing() -> None:
    rows, columns = Side(4, MIB), Side(4, MIB)
    assert tile_order(rows, columns, 65536, 0).bytes_read == 4 * (rows.bytes + columns.bytes)

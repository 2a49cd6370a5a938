"""The tiles that tuning tries: around the default, none too large, always the same."""

from __future__ import annotations

import pytest

from inductor_npu.target import get_target
from inductor_npu.tiling.candidates import candidates
from inductor_npu.tiling.plan import KernelSummary, TilePlan, footprint, plan_tile
from tests.tiling import examples

CHIP = get_target("Ascend910B3")
ALL = {name: value for name, value in vars(examples).items() if isinstance(value, KernelSummary)}
EVERY = 1000


def of(work: KernelSummary, most: int = EVERY) -> list[TilePlan]:
    return candidates(work, plan_tile(work, CHIP, 8192), CHIP, 0.8, most)


@pytest.mark.parametrize("name", ALL)
def test_the_default_is_first_and_no_tile_comes_twice(name: str) -> None:
    tiles = of(ALL[name])
    assert tiles[0] == plan_tile(ALL[name], CHIP, 8192)
    assert len({repr((tile.order, sorted(tile.blocks.items()), tile.loops)) for tile in tiles}) == len(tiles) > 1


@pytest.mark.parametrize("name", ALL)
def test_a_tile_that_does_not_fit_is_no_candidate(name: str) -> None:
    work = ALL[name]
    room = 0.8 * CHIP.unified_buffer
    assert all(footprint(tile.blocks, work) <= room for tile in of(work))
    crowded = [KernelSummary(work.axes, [*work.accesses] * 4, work.live, work.scalar_axes)]
    assert all(footprint(tile.blocks, crowded[0]) <= room for tile in of(crowded[0]))


def test_blocks_are_larger_smaller_and_split_in_other_ways() -> None:
    blocks = [tile.blocks for tile in of(examples.TRANSPOSE)]
    assert {"x": 64, "y": 64} in blocks
    assert {"x": 32, "y": 128} in blocks
    assert {"x": 64, "y": 32} in blocks
    assert {"x": 16, "y": 16} in blocks


def test_a_row_may_be_whole_or_read_in_a_loop() -> None:
    assert {tile.loops for tile in of(examples.SOFTMAX)} == {(), ("r0_",)}
    assert {tile.loops for tile in of(examples.COLUMN_SUM)} == {("r0_",)}


def test_a_scanned_row_stays_whole() -> None:
    assert all(tile.loops == () and tile.blocks["r0_"] == 256 for tile in of(examples.SCAN))


def test_no_tile_compares_less_at_once_than_the_default_does() -> None:
    rows = examples.axes(y=4096, x=256), examples.load("y x", "x"), examples.store("y x", "x")
    tiles = of(examples.work(*rows, compared="y"))
    assert min(tile.blocks["y"] for tile in tiles) >= 64
    assert min(tile.blocks["y"] for tile in of(examples.work(*rows))) < 64


def test_the_cheapest_few_are_taken_in_the_same_order_every_time() -> None:
    assert of(examples.SOFTMAX, most=4) == of(examples.SOFTMAX)[:4] == of(examples.SOFTMAX, most=4)

"""The rules by which tiles are chosen, each with an example; docs/tiling.md shows them as a table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from inductor_npu.target import get_target
from inductor_npu.tiling.plan import AxisSummary, TilePlan, footprint, plan_tile
from tests.tiling.examples import axes, load, store, work

CHIP = get_target("Ascend910B3")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tiling.md"

TILE = 8192


EXAMPLES = {
    "x + y of 1,048,576 elements": work(axes(x=1 << 20), load("x", "x"), load("x", "x"), store("x", "x")),
    "x + y of 4096 elements": work(axes(x=4096), load("x", "x"), load("x", "x"), store("x", "x")),
    "x + bias, 512 rows of 768": work(axes(y=512, x=768), load("y x", "x"), load("x", "x"), store("y x", "x")),
    "transpose of 1024 x 2048": work(axes(y=2048, x=1024), load("y x", "y"), store("y x", "x")),
    "softmax, 2048 rows of 512": work(axes(x=2048, r0_=512), load("x r0_", "r0_"), store("x r0_", "r0_"), values=2),
    "softmax, 64 rows of 50,000": work(axes(x=64, r0_=50_000), load("x r0_", "r0_"), store("x r0_", "r0_"), values=2),
    "sum over 4096 rows of 1024": work(axes(x=1024, r0_=4096), load("x r0_", "x"), store("x", "x")),
    "embedding, 8192 rows of 384": work(
        axes(y=8192, x=384), load("y", "y"), load("y x", "x", indirect="y"), store("y x", "x")
    ),
    "gather of single elements": work(
        axes(y=1000, x=200), load("y x", "x"), load("y x", None, indirect="y x"), store("y x", "x")
    ),
    "an index with a // that stays": work(axes(y=64, x=512), load("y x", "x"), store("y x", "x"), scalar_axes="y"),
    "4096 rows of 256, each with a condition": work(
        axes(y=4096, x=256), load("y x", "x"), load("y", "y"), store("y x", "x"), compared="y"
    ),
    "x + y of 20 elements": work(axes(x=20), load("x", "x"), load("x", "x"), store("x", "x")),
}


def described(tiles: TilePlan) -> str:
    order = ", ".join(f"{name} {tiles.blocks[name]}" for name in tiles.order)
    return f"[{order}]" + (f", loop over {', '.join(tiles.loops)}" if tiles.loops else "")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_shows_what_is_chosen(example: str) -> None:
    row = f"| {example} | {described(plan_tile(EXAMPLES[example], CHIP, TILE))} |"
    assert row in PAGE.read_text(), f"docs/tiling.md should have the row\n{row}"


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_tile_is_larger_than_the_unified_buffer_or_not_a_power_of_two(example: str) -> None:
    tiles = plan_tile(EXAMPLES[example], CHIP, TILE)
    assert footprint(tiles.blocks, EXAMPLES[example]) <= CHIP.unified_buffer
    assert all(block & (block - 1) == 0 for block in tiles.blocks.values())


def test_the_contiguous_axis_is_the_innermost_dimension() -> None:
    assert plan_tile(EXAMPLES["x + bias, 512 rows of 768"], CHIP, TILE).order[-1] == "x"
    assert plan_tile(EXAMPLES["sum over 4096 rows of 1024"], CHIP, TILE).order[-1] == "x"


def test_both_sides_of_a_transpose_see_whole_bursts() -> None:
    blocks = plan_tile(EXAMPLES["transpose of 1024 x 2048"], CHIP, TILE).blocks
    assert min(blocks["x"], blocks["y"]) >= 64


def test_a_row_is_whole_while_it_fits_and_read_in_a_loop_otherwise() -> None:
    assert plan_tile(EXAMPLES["softmax, 2048 rows of 512"], CHIP, TILE).is_persistent
    assert plan_tile(EXAMPLES["softmax, 64 rows of 50,000"], CHIP, TILE).loops == ("r0_",)


def test_a_row_of_unknown_length_is_read_in_a_loop() -> None:
    planned = [AxisSummary("x", 64, False), AxisSummary("r0_", 512, True, is_static=False)]
    tiles = plan_tile(work(planned, load("x r0_", "r0_"), store("x", "x")), CHIP, TILE)
    assert tiles.loops == ("r0_",)


def test_more_values_alive_make_a_smaller_tile() -> None:
    few, many = (
        plan_tile(work(axes(x=1 << 20), load("x", "x"), store("x", "x"), values=values), CHIP, 1 << 15)
        for values in (1, 12)
    )
    assert many.blocks["x"] < few.blocks["x"]


def test_rows_that_a_loaded_index_names_are_walked_and_single_elements_are_not() -> None:
    assert plan_tile(EXAMPLES["embedding, 8192 rows of 384"], CHIP, TILE).order == ("x",)
    assert "x" in plan_tile(EXAMPLES["gather of single elements"], CHIP, TILE).order


def test_every_core_has_a_tile_where_there_is_work_for_it() -> None:
    tiles = plan_tile(EXAMPLES["x + y of 1,048,576 elements"], CHIP, TILE)
    assert (1 << 20) / tiles.blocks["x"] >= CHIP.vector_cores


@pytest.mark.parametrize("lengths", [{"x": 3}, {"x": 1, "r0_": 5}, {"y": 4, "x": 9}, {"x": 5, "r0_": 7}], ids=str)
def test_a_tile_is_as_long_as_one_vector_comparison(lengths: dict[str, int]) -> None:
    names = " ".join(lengths)
    inner = [*lengths][-1]
    blocks = plan_tile(work(axes(**lengths), load(names, inner), store(names, inner)), CHIP, TILE).blocks
    assert math.prod(blocks.values()) >= 128


@pytest.mark.parametrize(
    ("lengths", "compared"),
    [
        ({"y": 4096, "x": 256}, "y"),
        ({"y": 17, "x": 64}, "y"),
        ({"y": 17, "x": 17}, "x"),
        ({"y": 9, "x": 12}, "y"),
        ({"x": 64, "r1_": 2, "r0_": 17}, "r0_"),
        ({"z": 2, "y": 11, "x": 64}, "z y"),
    ],
    ids=str,
)
def test_what_is_compared_along_some_axes_only_is_as_long_as_one_comparison(
    lengths: dict[str, int], compared: str
) -> None:
    names, inner = " ".join(lengths), "x"
    kernel = work(axes(**lengths), load(names, inner), load(compared, None), store(names, inner), compared=compared)
    blocks = plan_tile(kernel, CHIP, TILE).blocks
    assert math.prod(blocks.get(name, 1) for name in compared.split()) >= 64
    assert footprint(blocks, kernel) <= CHIP.unified_buffer


def test_a_comparison_of_a_few_rows_is_not_worth_a_longer_tile() -> None:
    rows = axes(x=2048, r0_=512), load("x r0_", "r0_"), store("x r0_", "r0_")
    assert plan_tile(work(*rows, compared="x"), CHIP, TILE) == plan_tile(work(*rows), CHIP, TILE)


def test_more_indices_than_there_are_would_load_more_rows() -> None:
    gather = axes(y=11, x=7), load("y", "y"), load("y x", "x", indirect="y"), store("y x", "y")
    assert plan_tile(work(*gather, compared="y"), CHIP, TILE) == plan_tile(work(*gather), CHIP, TILE)


def test_a_gather_of_a_few_short_rows_has_more_rows_rather_than_longer_ones() -> None:
    gather = axes(y=2, x=7), load("y", "y"), load("y x", "x", indirect="y"), store("y x", "x")
    blocks = plan_tile(work(*gather), CHIP, TILE).blocks
    assert blocks == {"y": 16, "x": 8}


def test_rows_that_leave_no_room_for_a_whole_comparison_stay_as_they_are() -> None:
    rows = axes(x=2048, r0_=256), load("x r0_", "r0_"), store("x r0_", "r0_")
    assert plan_tile(work(*rows, compared="x"), CHIP, TILE) == plan_tile(work(*rows), CHIP, TILE)


def test_rows_that_are_best_whole_are_so_where_their_length_is_known() -> None:
    """A dynamic axis is not: the next call may have more rows than the tile, whatever is expected of it."""
    for is_static in (True, False):
        planned = [AxisSummary("x", 5, False), AxisSummary("y", 80, False, is_static)]
        kernel = replace(work(planned, load("x y", "y"), store("x y", "x")), limited=frozenset("y"))
        chosen = plan_tile(kernel, CHIP, 4096)
        assert chosen.blocks["y"] >= 80
        assert ("y" in chosen.whole) == is_static


def test_rows_moved_in_bytes_fill_a_block_on_chip() -> None:
    stored = {
        size: plan_tile(work(axes(y=8192, x=4), load("y x", "x"), store("y x", "x", size)), CHIP, TILE)
        for size in (4, 1)
    }
    assert {size: tiles.blocks["x"] for size, tiles in stored.items()} == {4: 4, 1: 8}


def test_the_choice_is_the_same_every_time() -> None:
    for example in EXAMPLES.values():
        assert plan_tile(example, CHIP, TILE) == plan_tile(example, CHIP, TILE)


def test_rows_that_are_sorted_have_their_room_first() -> None:
    """Also where elements are contiguous along another axis: a row is never in parts."""
    sort = work(axes(x=17, r0_=129), load("x r0_", "x"), store("x r0_", "x"), values=40)
    tiles = plan_tile(replace(sort, sorts=True), CHIP, TILE)
    assert tiles.blocks["r0_"] == 256 and not tiles.loops
    assert footprint(tiles.blocks, sort) <= CHIP.unified_buffer

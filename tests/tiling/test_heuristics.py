"""Block sizes: long tiles, a program for each core, never over the Unified Buffer or the grid limit."""

from __future__ import annotations

import math

import pytest
from torch._inductor.runtime.hints import ReductionHint

from inductor_npu.tiling import footprint, heuristics, limits

META = {
    "npu_max_grid": 65535,
    "npu_unified_buffer": 192 << 10,
    "npu_cores": 40,
    "npu_tile": 4096,
    "npu_max_x_block": 4096,
}


def _programs(lengths: dict[str, int], blocks: dict[str, int]) -> int:
    return math.prod(-(-lengths[axis] // blocks.get(f"{axis.upper()}BLOCK", 1)) for axis in lengths if axis in "xyz")


@pytest.mark.parametrize("length", [1, 64, 1024, 4096, 1 << 16, 1 << 20, 1 << 27])
def test_one_axis(length: int) -> None:
    blocks = heuristics._pointwise_blocks({"x": length}, 4096, META)
    assert blocks["XBLOCK"] <= max(1, min(length, 4096))
    assert _programs({"x": length}, blocks) <= META["npu_max_grid"]


def test_every_core_gets_a_program() -> None:
    blocks = heuristics._pointwise_blocks({"x": 1 << 17}, 4096, META)
    assert _programs({"x": 1 << 17}, blocks) >= META["npu_cores"]


@pytest.mark.parametrize("y", [1, 8, 4096])
@pytest.mark.parametrize("x", [1, 16, 2048, 1 << 14])
def test_two_axes_fill_a_tile(x: int, y: int) -> None:
    blocks = heuristics._pointwise_blocks({"y": y, "x": x}, 4096, META)
    assert blocks["XBLOCK"] * blocks["YBLOCK"] <= 4096
    assert blocks["XBLOCK"] <= x
    assert blocks["YBLOCK"] <= y


@pytest.mark.parametrize("length", [1 << 28, 1 << 29, (1 << 29) + 12345])
def test_a_length_above_the_grid_limit_gets_longer_blocks(length: int) -> None:
    largest = limits.x_block_for_grid(length, 4096, META["npu_max_grid"])
    blocks = heuristics._pointwise_blocks({"x": 1 << 30}, 4096, {**META, "npu_max_x_block": largest})
    assert 4096 < blocks["XBLOCK"] <= limits.LARGEST_X_BLOCK
    assert _programs({"x": length}, blocks) <= META["npu_max_grid"]


@pytest.mark.parametrize("row", [2, 64, 1000, 4096])
def test_rows_share_a_program_up_to_the_tile(row: int) -> None:
    rows = 1 << 14
    blocks = heuristics._persistent_blocks({"x": rows, "r0_": row}, 8192, {**META, "npu_max_x_block": 4096})
    assert blocks["XBLOCK"] * row <= 8192
    assert rows // blocks["XBLOCK"] >= META["npu_cores"]


def test_looped_rows_are_read_in_long_pieces() -> None:
    blocks = heuristics._looped_blocks({"x": 64, "r0_": 1 << 20}, 8192, ReductionHint.INNER, META)
    assert blocks == {"XBLOCK": 1, "R0_BLOCK": 8192}


def test_rows_side_by_side_are_read_a_burst_wide() -> None:
    blocks = heuristics._looped_blocks({"x": 4096, "r0_": 1 << 16}, 8192, ReductionHint.OUTER, META)
    assert blocks["XBLOCK"] == heuristics.OUTER_ROWS
    assert blocks["XBLOCK"] * blocks["R0_BLOCK"] == 8192


def test_footprint_counts_loads_stores_and_the_widest_type() -> None:
    narrow = {"signature": {"a": "*fp16", "b": "*fp32", "n": "i32"}}
    wide = {"signature": {"a": "*i64", "b": "*fp32", "n": "i32"}}
    counts = {"num_load": 3, "num_store": 1}
    assert footprint.bytes_per_element(wide, counts) == 2 * footprint.bytes_per_element(narrow, counts)


def test_tile_shrinks_until_it_fits() -> None:
    meta = {**META, "num_load": 20, "num_store": 5}
    tile = footprint.fitting_tile(16384, {"signature": {"a": "*fp32"}}, meta)
    assert tile * footprint.bytes_per_element({"signature": {"a": "*fp32"}}, meta) <= META["npu_unified_buffer"]

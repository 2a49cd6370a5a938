"""Tiles of matrix products: they fit the chip, and are those that Ascend's rules name (docs/cube.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inductor_npu.target import NpuTarget
from inductor_npu.target.ascend import ASCEND_CHIPS
from inductor_npu.tiling import cube
from inductor_npu.tiling.conversions import is_converted_inside
from inductor_npu.tiling.cube import (
    NoTileError,
    ProductSummary,
    ProductTile,
    candidates,
    cost,
    plan_product,
    why_library,
)
from inductor_npu.tiling.splits import parts_of_sum

(CHIP,) = (chip for chip in ASCEND_CHIPS if chip.name == "Ascend910B3")


def product(rows: int, columns: int, inner: int, item_size: int = 2, **more: int) -> ProductSummary:
    return ProductSummary(rows, columns, inner, 1, item_size, result_bytes=4 if item_size == 1 else item_size, **more)


@pytest.mark.parametrize(
    ("item_size", "tile"),
    [(2, ProductTile(128, 256, 256)), (4, ProductTile(128, 256, 128)), (1, ProductTile(128, 256, 512))],
)
def test_large_products_fill_l0c_and_l1_twice(item_size: int, tile: ProductTile) -> None:
    work = product(2048, 2048, 2048, item_size)
    assert plan_product(work, CHIP, 0.8) == tile
    assert cube.l0c_bytes(work, tile, CHIP) == CHIP.l0c
    assert cube.l1_bytes(work, tile, CHIP) == 192 * 1024


def test_few_rows_are_padded_to_one_square() -> None:
    assert plan_product(product(5, 4096, 4096), CHIP, 0.8).rows == 16


def test_small_products_are_cut_for_all_cores() -> None:
    tile = plan_product(product(512, 512, 512), CHIP, 0.8)
    assert -(-512 // tile.rows) * -(-512 // tile.columns) >= CHIP.cube_cores // 2 + 1


def test_vector_values_make_the_tile_smaller() -> None:
    large, small = (plan_product(product(2048, 2048, 2048, vector_bytes=size), CHIP, 0.8) for size in (4, 24))
    assert small.rows * small.columns < large.rows * large.columns


def test_too_many_vector_values_are_an_error() -> None:
    with pytest.raises(NoTileError, match="10000 bytes for each"):
        plan_product(product(64, 64, 64, vector_bytes=10_000), CHIP, 0.8)


sizes = st.integers(1, 5000)


def test_each_operand_lies_in_l1_whichever_side_is_shared() -> None:
    tile = ProductTile(64, 64, 32)
    operand = CHIP.operand_bytes(64, 32, 2)
    for shared in ({"lefts": 8}, {"rights": 8}):
        assert cube.l1_bytes(product(64, 64, 32, accumulators=8, **shared), tile, CHIP) == 9 * operand


operands = st.sampled_from(((1, 1), (2, 1), (1, 2), (8, 1)))


@given(sizes, sizes, sizes, st.sampled_from((1, 2, 4)), st.sampled_from((0, 4, 10, 20)), operands)
def test_every_candidate_fits(
    rows: int, columns: int, inner: int, item_size: int, vector_bytes: int, operands: tuple[int, int]
) -> None:
    lefts, rights = operands
    shared = {"accumulators": lefts * rights, "lefts": lefts, "rights": rights}
    work = product(rows, columns, inner, item_size, vector_bytes=vector_bytes, **shared)
    for tile in candidates(work, CHIP, 0.8):
        assert cube.l0c_bytes(work, tile, CHIP) <= CHIP.l0c
        assert 2 * cube.l1_bytes(work, tile, CHIP) <= CHIP.l1
        assert cube.vector_bytes(work, tile, CHIP) <= 0.8 * CHIP.unified_buffer
        assert tile.inner * item_size >= CHIP.burst_bytes


@given(sizes, sizes, sizes)
def test_the_default_takes_about_the_fewest_cycles_and_then_moves_the_fewest_bytes(
    rows: int, columns: int, inner: int
) -> None:
    work = product(rows, columns, inner)
    best, *others = (cost(work, tile, CHIP) for tile in candidates(work, CHIP, 0.8))
    for other in others:
        assert best.cycles <= 1.15 * other.cycles
        assert best.bytes_moved <= other.bytes_moved or other.cycles > best.cycles / 1.15


def test_cycles_are_those_of_ascends_compiler() -> None:
    """2048 cubed in float16, as its final code was counted; the operands are in L2 when they are read again."""
    work = product(2048, 2048, 2048)
    tile = ProductTile(128, 256, 256)
    estimated = cost(work, tile, CHIP)
    assert estimated.cube == pytest.approx(115_000, rel=0.02)
    assert estimated.fixpipe == pytest.approx(10_000, rel=0.05)
    assert estimated.cycles == pytest.approx(134_000, rel=0.1)
    assert cost(work, tile, replace(CHIP, l2=0)).mte2 == pytest.approx(248_000, rel=0.02)


@pytest.mark.parametrize(
    ("dtypes", "chip", "reason"),
    [
        ((torch.float64, torch.float64), CHIP, "do not multiply torch.float64"),
        ((torch.float16, torch.float32), CHIP, "torch.float16 and torch.float32"),
        ((torch.float16, torch.float16), replace(CHIP, cube_cores=0), "no cube cores"),
    ],
)
def test_what_the_library_computes_has_a_reason(dtypes: tuple[torch.dtype, ...], chip: NpuTarget, reason: str) -> None:
    assert reason in (why_library(dtypes, chip) or "")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8], ids=str)
def test_what_the_cube_multiplies_has_none(dtype: torch.dtype) -> None:
    assert why_library((dtype, dtype), CHIP) is None


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((16, 16, 65536), 16),
        ((64, 64, 50_000), 20),
        ((64, 64, 65537), 1),  # a prime
        ((16, 16, 1024), 1),  # shorter than a launch
        ((2048, 2048, 8192), 1),  # has tiles for all cores
    ],
)
def test_long_sums_of_few_tiles_are_split(sizes: tuple[int, int, int], parts: int) -> None:
    assert parts_of_sum(product(*sizes), CHIP, 0.8) == parts


@given(sizes, sizes, st.integers(1, 100_000))
def test_a_split_sum_has_equal_parts_and_takes_no_more_cycles(rows: int, columns: int, inner: int) -> None:
    work = product(rows, columns, inner)
    parts = parts_of_sum(work, CHIP, 0.8)
    each = replace(work, inner=inner // parts, batch=parts, result_bytes=4 if parts > 1 else work.result_bytes)
    cycles = cost(each, plan_product(each, CHIP, 0.8), CHIP).cycles + (CHIP.launch_cycles if parts > 1 else 0)
    assert inner % parts == 0 and cycles <= cost(work, plan_product(work, CHIP, 0.8), CHIP).cycles


@pytest.mark.parametrize(("rows", "is_inside"), [(2, True), (16, True), (17, False), (256, False)])
def test_weights_of_one_square_of_rows_are_converted_inside(rows: int, is_inside: bool) -> None:
    assert is_converted_inside(product(rows, 4096, 4096, converted=1), CHIP, 0.8) is is_inside


@given(sizes, sizes, st.sampled_from((2, 4)), st.sampled_from((0, 10)))
def test_what_is_converted_fits_and_has_whole_bursts(
    columns: int, inner: int, item_size: int, vector_bytes: int
) -> None:
    work = product(16, columns, inner, item_size, vector_bytes=vector_bytes, converted=1)
    for tile in candidates(work, CHIP, 0.8):
        assert tile.inner >= CHIP.burst_bytes and tile.columns >= CHIP.burst_bytes
        assert cube.vector_bytes(work, tile, CHIP) <= 0.8 * CHIP.unified_buffer
        assert 2 * cube.l1_bytes(work, tile, CHIP) <= CHIP.l1

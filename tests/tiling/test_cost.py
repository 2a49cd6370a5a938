"""The cost model: what it counts, and that it ranks tiles as they deserve."""

from __future__ import annotations

import pytest

from inductor_npu.target import get_target
from inductor_npu.tiling.cost import Cost, cost
from inductor_npu.tiling.plan import KernelSummary, TilePlan
from tests.tiling import examples

CHIP = get_target("Ascend910B3")


def of(work: KernelSummary, *loops: str, **blocks: int) -> Cost:
    return cost(work, TilePlan(tuple(blocks), blocks, loops), CHIP)


def test_bytes_are_those_of_every_load_and_store() -> None:
    assert of(examples.SUM, x=4096).bytes_moved == 3 * 4 * (1 << 20)


def test_a_bias_is_loaded_once_for_each_tile() -> None:
    few, many = of(examples.BIAS, y=8, x=256), of(examples.BIAS, y=2, x=256)
    assert many.bytes_moved - few.bytes_moved == pytest.approx((256 - 64) * 768 * 4)


def test_what_lies_apart_costs_a_whole_block_of_memory_each() -> None:
    along, across = of(examples.TRANSPOSE, y=64, x=64), of(examples.TRANSPOSE, y=1, x=4096)
    assert across.mte2 > 5 * along.mte2


def test_a_row_that_two_loops_read_is_moved_twice() -> None:
    whole, looped = of(examples.SOFTMAX, x=8, r0_=512), of(examples.SOFTMAX, "r0_", x=8, r0_=256)
    assert looped.bytes_moved == pytest.approx(whole.bytes_moved * 1.5)  # two loads and a store


def test_what_is_computed_beyond_the_end_of_a_row_counts() -> None:
    fits, beyond = of(examples.BIAS, y=16, x=256), of(examples.BIAS, y=4, x=1024)
    assert beyond.vector >= 1.2 * fits.vector


def test_single_elements_bound_a_gather() -> None:
    gather = of(examples.GATHER, y=16, x=256)
    assert gather.bound == gather.scalar > 10 * (gather.mte2 + gather.vector + gather.mte3)


def test_several_tiles_a_core_overlap_and_one_does_not() -> None:
    one, several = of(examples.SUM, x=1 << 15), of(examples.SUM, x=1 << 12)
    assert one.fill > 3 * several.fill


def test_a_tile_that_leaves_cores_idle_is_dear() -> None:
    assert of(examples.BIAS, y=512, x=256).cycles > 5 * of(examples.BIAS, y=8, x=256).cycles

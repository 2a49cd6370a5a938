"""Ascend's chips: sizes in bytes, and None for what no source says. tests/ascend compares them with the compiler's."""

from __future__ import annotations

import pytest

from inductor_npu.target import get_target
from inductor_npu.target.ascend import ASCEND_CHIPS
from inductor_npu.target.npu_target import KIB


@pytest.mark.parametrize(
    ("name", "vector_cores", "unified_buffer", "l0c"),
    [
        ("Ascend910B2", 48, 192 * KIB, 128 * KIB),
        ("Ascend910B4-1", 40, 192 * KIB, 128 * KIB),
        ("Ascend910_9382", 48, 192 * KIB, 128 * KIB),
        ("Ascend950PR_9589", 64, 248 * KIB, 256 * KIB),
        ("Ascend950DT_95A1", 72, 248 * KIB, 256 * KIB),
    ],
)
def test_facts(name: str, vector_cores: int, unified_buffer: int, l0c: int) -> None:
    chip = get_target(name)
    assert (chip.vector_cores, chip.unified_buffer, chip.l0c) == (vector_cores, unified_buffer, l0c)


def test_every_chip_has_two_vector_cores_for_each_cube_core() -> None:
    assert all(chip.vector_cores == 2 * chip.cube_cores for chip in ASCEND_CHIPS)


def test_what_no_source_says_is_none() -> None:
    assert get_target("Ascend910B3").memory_bandwidth == 1.6e12
    assert (get_target("Ascend950PR_9589").memory, get_target("Ascend950PR_9589").memory_bandwidth) == (None, None)

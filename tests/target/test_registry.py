"""Chips by name: what is known, and how the maker of another one adds it."""

from __future__ import annotations

import dataclasses

import pytest

from inductor_npu.target import NpuTarget, get_target, known_targets, register_target, registry
from inductor_npu.target.npu_target import GIB, KIB


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_TARGETS", dict(registry._TARGETS))


def test_the_default_chip_is_the_one_of_the_documentation() -> None:
    chip = get_target("Ascend910B3")
    assert (chip.cube_cores, chip.vector_cores, chip.unified_buffer) == (20, 40, 192 * KIB)
    assert (chip.l1, chip.l0a, chip.l0b, chip.l0c) == (512 * KIB, 64 * KIB, 64 * KIB, 128 * KIB)
    assert (chip.memory, chip.burst_bytes, chip.max_grid) == (64 * GIB, 32, 65535)


@pytest.mark.usefixtures("own_registry")
def test_another_chip_is_registered_once() -> None:
    chip = dataclasses.replace(get_target("Ascend910B3"), name="Own1", vector_cores=8)
    assert register_target(chip) is chip
    assert get_target("Own1") is chip and "Own1" in known_targets()
    register_target(dataclasses.replace(chip))  # the same facts again do no harm
    with pytest.raises(ValueError, match="'Own1' is already registered with other facts"):
        register_target(dataclasses.replace(chip, vector_cores=9))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown NPU target 'Ascend1'.*Ascend910B3"):
        get_target("Ascend1")


@pytest.mark.parametrize("fact", ["vector_cores", "unified_buffer", "burst_bytes", "max_grid"])
def test_a_chip_without_something_essential_is_refused(fact: str) -> None:
    with pytest.raises(ValueError, match=f"{fact} must be positive, got 0"):
        dataclasses.replace(get_target("Ascend910B3"), **{fact: 0})


def test_facts_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_target("Ascend910B3").vector_cores = 1
    assert isinstance(get_target("Ascend910B3"), NpuTarget)


def test_threads_of_a_program_follow_from_its_tile() -> None:
    chip = dataclasses.replace(get_target("Ascend910B3"), name="Threads", threads_by_tile=((128, 32), (4096, 256)))
    assert [chip.threads_of(elements) for elements in (1, 128, 129, 4096, 1 << 20)] == [32, 32, 256, 256, 256]
    assert get_target("Ascend910B3").threads_of(1) is None


@pytest.mark.parametrize(("name", "memory"), [("H100", 80), ("H200", 141)])
def test_a_gpu_is_528_cores_without_a_matrix_unit(name: str, memory: int) -> None:
    chip = get_target(name)
    assert (chip.vector_cores, chip.cube_cores, chip.memory) == (528, 0, memory * GIB)
    assert [chip.threads_of(1 << power) for power in range(7, 14)] == [32, 64, 128, 128, 128, 128, 256]

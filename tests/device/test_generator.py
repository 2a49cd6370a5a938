"""The device's random number generator."""

from __future__ import annotations

import pytest
import torch


def generator(seed: int) -> torch.Generator:
    return torch.Generator(device="npu").manual_seed(seed)


def draw(g: torch.Generator) -> list[float]:
    return torch.rand(5, device="npu", generator=g).tolist()


def test_a_seed_repeats_its_numbers():
    assert draw(generator(3)) == draw(generator(3))
    assert draw(generator(3)) != draw(generator(4))
    assert generator(3).initial_seed() == 3


def test_draws_advance_it():
    g = generator(3)
    assert draw(g) != draw(g)


def test_the_state_can_be_saved_and_restored():
    g = generator(3)
    draw(g)
    state = g.get_state()
    first = draw(g)
    g.set_state(state)
    assert draw(g) == first
    assert state.device.type == "cpu" and state.dtype == torch.uint8


def test_the_offset_is_part_of_the_state():
    g = generator(3)
    g.set_offset(12)
    state = g.get_state()
    other = generator(4)
    other.set_state(state)
    assert other.get_offset() == 12
    other.manual_seed(5)
    assert other.get_offset() == 0


def test_the_state_is_a_seed_and_an_offset():
    """As DTensor reads it (torch/distributed/tensor/_random.py, _PhiloxState)."""
    g = generator(3)
    draw(g)
    seed, offset = g.get_state().view(torch.int64).tolist()
    assert seed == 3 and offset == g.get_offset() > 0
    g.set_state(torch.tensor([3, offset + 400]).view(torch.uint8))
    later = draw(g)
    g.set_state(torch.tensor([3, offset + 800]).view(torch.uint8))
    assert draw(g) != later


def test_a_clone_goes_its_own_way():
    g = generator(3)
    clone = g.clone_state()
    assert draw(clone) == draw(g)
    draw(g)
    assert draw(clone) != draw(g)


def test_graphsafe_state_is_shared():
    g, other = generator(3), generator(4)
    other.graphsafe_set_state(g.graphsafe_get_state())
    first = draw(g)
    assert draw(other) != first
    g.manual_seed(3)
    assert draw(other) == first


def test_seed_chooses_another_one_each_time():
    g = generator(3)
    assert g.seed() != g.seed()


@pytest.mark.parametrize(
    "state",
    [torch.zeros(8, dtype=torch.uint8), torch.zeros(5064)],
    ids=["wrong size", "wrong dtype"],
)
def test_a_wrong_state_is_refused(state):
    with pytest.raises((RuntimeError, TypeError), match=r"RNG state|ByteTensor"):
        generator(3).set_state(state)


def test_a_bad_device_index_is_refused():
    with pytest.raises(RuntimeError, match="npu device index 5 is out of range"):
        torch.Generator(device="npu:5")

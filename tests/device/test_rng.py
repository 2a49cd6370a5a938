"""Random numbers on npu: seeds, states, generators."""

from __future__ import annotations

import pytest
import torch


def draw(device: str = "npu") -> list[float]:
    return torch.rand(4, device=device).tolist()


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.npu.manual_seed, torch.npu.manual_seed_all])
def test_a_seed_repeats_the_numbers(seed) -> None:
    seed(3)
    first = draw()
    second = draw()
    seed(3)
    assert draw() == first != second


@pytest.mark.two_devices
def test_the_generators_of_devices_and_cpu_are_independent() -> None:
    torch.manual_seed(0)
    expected_cpu, expected_npu = draw("cpu"), draw("npu:1")
    torch.manual_seed(0)
    draw("npu:0")
    assert (draw("cpu"), draw("npu:1")) == (expected_cpu, expected_npu)


@pytest.mark.parametrize(
    "fill",
    [
        lambda t, g: t.normal_(generator=g),
        lambda t, g: t.uniform_(generator=g),
        lambda t, g: t.bernoulli_(0.5, generator=g),
        lambda t, g: t.exponential_(generator=g),
        lambda t, g: t.random_(0, 100, generator=g),
        lambda t, g: torch.randperm(10, generator=g, device="npu"),
        lambda t, g: torch.randint(0, 9, (5,), generator=g, device="npu"),
        lambda t, g: torch.multinomial(torch.ones(8, device="npu"), 4, generator=g),
        lambda t, g: torch.poisson(t + 3, generator=g),
        lambda t, g: torch.randn(5, generator=g, device="npu"),
    ],
)
def test_a_generator_of_ones_own(fill) -> None:
    generator = torch.Generator(device="npu").manual_seed(11)
    assert generator.device == torch.device("npu:0")
    before = torch.npu.get_rng_state()
    first = fill(torch.zeros(16, device="npu"), generator)
    state = generator.get_state()
    second = fill(torch.zeros(16, device="npu"), generator)
    generator.manual_seed(11)
    assert torch.equal(fill(torch.zeros(16, device="npu"), generator), first)
    generator.set_state(state)
    assert torch.equal(fill(torch.zeros(16, device="npu"), generator), second)
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_a_cpu_generator_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"device type for generator|generator"):
        torch.randn(3, device="npu", generator=torch.Generator())


@pytest.mark.two_devices
def test_states_of_one_and_all_devices() -> None:
    states = torch.npu.get_rng_state_all()
    assert len(states) == 2 and all(state.device.type == "cpu" for state in states)
    first = draw("npu:1")
    torch.npu.set_rng_state_all(states)
    assert draw("npu:1") == first
    torch.npu.set_rng_state(states[1], "npu:1")
    assert draw("npu:1") == first


@pytest.mark.two_devices
def test_fork_rng_restores_the_state() -> None:
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[0, 1], device_type="npu"):
        inside = draw()
    assert draw() == inside


@pytest.mark.two_devices
def test_seeds_can_be_asked_for() -> None:
    torch.manual_seed(1234)
    assert torch.npu.initial_seed() == 1234
    assert [generator.initial_seed() for generator in torch.npu.default_generators] == [1234, 1234]
    torch.npu.seed_all()
    first, second = (generator.initial_seed() for generator in torch.npu.default_generators)
    assert first == second != 1234


@pytest.mark.two_devices
def test_a_seed_that_torch_chooses_is_the_current_devices_and_can_be_given_again() -> None:
    torch.manual_seed(1234)
    torch.npu.seed()
    first, second = (generator.initial_seed() for generator in torch.npu.default_generators)
    assert first == torch.npu.initial_seed() != 1234 == second
    numbers = draw()
    torch.npu.manual_seed(first)
    assert draw() == numbers

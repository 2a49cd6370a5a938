"""Random numbers on device npu: one default generator a device."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from inductor_npu.device.npu.devices import DeviceLike, current_device, device_count, device_index
from inductor_npu.device.npu.runtime import _lazy_call, extension


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each device, as `torch.npu.default_generators`."""
    return tuple(extension().default_generator(index) for index in range(device_count()))


def _generator(device: DeviceLike) -> torch.Generator:
    return extension().default_generator(device_index(device))


def get_rng_state(device: DeviceLike = "npu") -> torch.Tensor:
    """State of the device's generator, a uint8 tensor on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "npu") -> None:
    """Puts the device's generator into a state from `get_rng_state`."""
    state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Puts each device's generator into its state."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator; at the first use of the device if it is not in use yet."""
    seed = int(seed)
    _lazy_call(lambda: _generator(None).manual_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices alike. torch.manual_seed does this too."""
    seed = int(seed)

    def seed_each() -> None:
        for generator in default_generators():
            generator.manual_seed(seed)

    _lazy_call(seed_each)


def seed() -> None:
    """Seeds the current device's generator from the system's randomness."""
    _lazy_call(lambda: _generator(None).seed())


def seed_all() -> None:
    """Seeds all devices' generators alike from the system's randomness."""

    def seed_each() -> None:
        first, *others = default_generators()
        value = first.seed()
        for generator in others:
            generator.manual_seed(value)

    _lazy_call(seed_each)


def initial_seed() -> int:
    """Seed of the current device's generator."""
    return _generator(current_device()).initial_seed()

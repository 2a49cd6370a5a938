"""Device properties as Inductor wants them, from the target's facts alone: asking never opens the device."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from inductor_npu import providers


@dataclass(frozen=True)
class NpuDeviceProperties:
    """What Inductor's heuristics read of a device.

    `multi_processor_count` is the number of vector cores, because a program of a pointwise or reduction kernel
    occupies one of them. `total_memory` is in bytes, None where the target's facts do not say it. `warp_size` says
    nothing of the chip: Inductor splits reductions over programs in units of it, and with a GPU's 32 the pieces get a
    length that suits a core here.
    """

    name: str
    multi_processor_count: int
    total_memory: int | None
    warp_size: int = 32
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int | None = None
    regs_per_multiprocessor: int | None = None
    major: int | None = None


@functools.cache
def device_properties() -> NpuDeviceProperties:
    """The properties of every `npu` device in this process: all of them are the current target."""
    target = providers.current_target()
    return NpuDeviceProperties(name=target.name, multi_processor_count=target.vector_cores, total_memory=target.memory)

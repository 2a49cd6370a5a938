"""Peak memory of a call above what was allocated before it, in bytes: of device npu, and of the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


def peak_on_npu(run: Callable[[], object]) -> int:
    """The peak of the second call of `run`: the first one compiles."""
    run()
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    run()
    torch.npu.synchronize()
    return torch.npu.max_memory_allocated() - before


def peak_on_cpu(run: Callable[[], object]) -> int:
    """As `peak_on_npu`, of the CPU's allocator, as the profiler follows it."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as followed:
        run()
    events = [event for event in followed.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.device_type() == DeviceType.CPU:
            live += event.nbytes()
            peak = max(peak, live)
    return peak

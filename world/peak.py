"""Peak memory of one call: bytes of the model and its inputs, and the most that the call holds besides.

On a device its allocator says it, in bytes that were asked for; on the CPU the profiler's events of the allocator do,
through which stock Inductor's code allocates as well. What was there before and is freed in the call counts on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree

from world.case import Built


def held(built: Built) -> int:
    """Bytes of weights, buffers and inputs; what shares memory counts once."""
    tensors = [*built.model.parameters(), *built.model.buffers(), *pytree.tree_leaves((built.args, built.kwargs))]
    storages = [one.untyped_storage() for one in tensors if isinstance(one, torch.Tensor) and not one.is_sparse]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def peak_of(call: Callable[[], object], device: str) -> int:
    """The most bytes that `call` holds at a time beside what was there before; what it returns is part of them."""
    return _peak_on_cpu(call) if device == "cpu" else _peak_on_device(call, device)


def _peak_on_cpu(call: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        kept = call()
    now = most = 0
    for event in seen.profiler.kineto_results.events():  # in the order of time
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU:
            now += event.nbytes()
            most = max(most, now)
    del kept
    return most


def _peak_on_device(call: Callable[[], object], device: str) -> int:
    module = torch.get_device_module(device)
    module.synchronize()
    module.reset_peak_memory_stats()
    before = module.memory_stats()["requested_bytes.all.current"]
    kept = call()
    module.synchronize()
    most = module.memory_stats()["requested_bytes.all.peak"]
    del kept
    return most - before

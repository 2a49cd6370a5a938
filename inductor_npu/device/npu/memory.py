"""Memory of device npu: statistics and queries of its caching allocator. All sizes are in bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch

from inductor_npu.device.npu.devices import DeviceLike, device, device_index
from inductor_npu.device.npu.host_memory import flatten
from inductor_npu.device.npu.host_memory import host_empty_cache as host_empty_cache
from inductor_npu.device.npu.host_memory import host_memory_stats as host_memory_stats
from inductor_npu.device.npu.host_memory import (
    host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict,
)
from inductor_npu.device.npu.host_memory import (
    reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats,
)
from inductor_npu.device.npu.host_memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats
from inductor_npu.device.npu.memory_history import _dump_snapshot as _dump_snapshot
from inductor_npu.device.npu.memory_history import _record_memory_history as _record_memory_history
from inductor_npu.device.npu.memory_history import _snapshot as _snapshot
from inductor_npu.device.npu.memory_history import leak_check as leak_check
from inductor_npu.device.npu.runtime import extension, is_initialized
from inductor_npu.device.npu.streams import StreamContext

_SHARED_POOL = (0, 0)  # the id of the pool of whatever is in no other
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def empty_cache() -> None:
    """Gives reserved memory that no tensor uses back to the host."""
    if torch.compiler.is_dynamo_compiling():
        return  # a graph holds no such call, for no device
    if is_initialized():
        extension().empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) memory of the device."""
    free, total = extension().mem_get_info(device_index(device))
    return free, total


def device_memory_used(device: DeviceLike = None) -> int:
    """Memory of the device that is not free: what the allocator holds."""
    free, total = mem_get_info(device)
    return total - free


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Statistics of the allocator, nested as torch.cuda's; empty before the first use of the device."""
    return extension().memory_stats(device_index(device)) if is_initialized() else {}


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """The same, flat: "allocated_bytes.all.current" and so on, in torch.cuda's names."""
    return flatten(memory_stats_as_nested_dict(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Memory that tensors occupy now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most that tensors occupied since the start or the last `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Memory that the allocator holds now."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most that the allocator held since the start or the last `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Starts the peaks from what is in use now."""
    if is_initialized():
        extension().reset_peak_memory_stats(device_index(device))


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


memory_cached = memory_reserved  # their names until torch 1.4
max_memory_cached = max_memory_reserved
reset_max_memory_cached = reset_max_memory_allocated


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Starts the totals of allocations and releases from zero."""
    if is_initialized():
        extension().reset_accumulated_memory_stats(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limits the allocator to `fraction` of the device's memory, above 0 and at most 1; beyond it is
    torch.OutOfMemoryError."""
    if not isinstance(fraction, float):
        raise TypeError(f"fraction must be a float, got {type(fraction).__name__}")
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    extension().set_memory_fraction(fraction, device_index(device))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The part of the device's memory that the allocator may use."""
    index = device_index(device)
    return extension().memory_limit(index) / mem_get_info(index)[1]


def get_allocator_backend() -> str:
    """ "native": the caching allocator, the only one there is."""
    return "native"


def memory_snapshot() -> list[dict[str, Any]]:
    """The allocator's segments on all devices, each a dict with its blocks."""
    return extension().memory_snapshot() if is_initialized() else []


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A table of the allocator's statistics, to be read by people. Unless abbreviated, a row follows for each private
    pool (of captured graphs, and `MemPool`): what of it is allocated, and what it reserves."""
    stats = memory_stats(device)
    rows = [
        ("Allocated memory", "allocated_bytes"),
        ("Active memory", "active_bytes"),
        ("Requested memory", "requested_bytes"),
        ("Reserved memory", "reserved_bytes"),
        ("Non-releasable memory", "inactive_split_bytes"),
        ("Allocations", "allocation"),
        ("Active allocations", "active"),
        ("Segments", "segment"),
        ("Non-releasable blocks", "inactive_split"),
    ]
    pools = (
        [("", "all")] if abbreviated else [("", "all"), ("  large pool", "large_pool"), ("  small pool", "small_pool")]
    )
    index = device_index(device) if is_initialized() else 0
    ooms, retries = stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)
    lines = [
        f"Memory of npu:{index}: {ooms} times out of memory, {retries} retries",
        f"{'':24}{'current':>14}{'peak':>14}{'allocated':>14}{'freed':>14}",
    ]
    for title, metric in rows:
        for label, pool in pools:
            values = [stats.get(f"{metric}.{pool}.{column}", 0) for column in ("current", "peak", "allocated", "freed")]
            texts = [_format_bytes(value) if metric.endswith("_bytes") else str(value) for value in values]
            lines.append(f"{label or title:24}" + "".join(f"{text:>14}" for text in texts))
    if not abbreviated:
        lines += _rows_of_private_pools(index)
    return "\n".join(lines)


def _rows_of_private_pools(index: int) -> list[str]:
    pools: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for segment in memory_snapshot():
        pool = segment["segment_pool_id"]
        if segment["device"] == index and pool != _SHARED_POOL:
            pools[pool].update(allocated=segment["allocated_size"], reserved=segment["total_size"])
    rows = [
        f"{f'  {pool}':24}{_format_bytes(of['allocated']):>14}{_format_bytes(of['reserved']):>14}"
        for pool, of in sorted(pools.items())
    ]
    return [f"{'Private pools':24}{'allocated':>14}{'reserved':>14}", *rows] if rows else []


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: torch.Stream | None = None) -> int:
    """Address of `size` bytes of device memory, in the order of `stream`. For other libraries; give it back with
    `caching_allocator_delete`."""
    with _device_guard(device), StreamContext(stream):
        return extension().raw_alloc(size)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back memory from `caching_allocator_alloc`."""
    extension().raw_delete(mem_ptr)


_device_guard = device


def _format_bytes(size: float) -> str:
    unit = 0
    while abs(size) >= 10 * 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}"

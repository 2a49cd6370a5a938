"""Pinned host memory, from which copies to device npu need not wait: statistics of its cache. Sizes are in bytes."""

from __future__ import annotations

from typing import Any

from inductor_npu.device.npu.runtime import extension, is_initialized


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Statistics of pinned memory, in torch.cuda's names; times are in microseconds. Empty before the first use of the
    device.
    """
    return extension().host_memory_stats() if is_initialized() else {}


def host_memory_stats() -> dict[str, int]:
    """The same, flat: "allocated_bytes.current" and so on."""
    return flatten(host_memory_stats_as_nested_dict())


def reset_peak_host_memory_stats() -> None:
    """Starts the peaks from what is in use now."""
    if is_initialized():
        extension().reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Starts the totals of allocations and releases from zero."""
    if is_initialized():
        extension().reset_accumulated_host_memory_stats()


def host_empty_cache() -> None:
    """Gives cached pinned memory, which no tensor uses, back to the host."""
    if is_initialized():
        extension().host_empty_cache()


def flatten(nested: dict[str, Any]) -> dict[str, int]:
    """{"a": {"b": 1}} as {"a.b": 1}, sorted."""
    flat: dict[str, int] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                add(f"{prefix}.{name}" if prefix else name, inner)
        else:
            flat[prefix] = value

    add("", nested)
    return dict(sorted(flat.items()))

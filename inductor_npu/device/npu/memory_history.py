"""Who allocated what, and when: the history and snapshots of `torch.npu.memory`, and its leak check.

The names and the format are torch.cuda.memory's, which `torch/cuda/_memory_viz.py` and pytorch.org/memory_viz read.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch._utils

from inductor_npu.device.npu.devices import DeviceLike, device_index
from inductor_npu.device.npu.runtime import extension
from inductor_npu.errors import MemoryLeakError

_CONTEXTS = {None: "Nothing", "state": "Blocks", "alloc": "Allocations", "all": "Everything"}
_LISTED_LEAKS = 10
_LISTED_FRAMES = 5


def _record_memory_history(
    enabled: Literal["state", "all"] | bool | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "python",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] | None = None,
) -> None:
    """Records the allocator's work from here on, on all devices, for `_snapshot`.

    `enabled`: "all" keeps each allocation and each free; "state" the stacks of what is allocated now; None ends it and
    forgets what was recorded; True and False, as older programs write, are "all" and None. `context`: whose stacks are
    kept: "state" (what is allocated now), "alloc" (also allocations of the past), "all" (also frees), or None.
    `stacks`: "python", or "all" for C++ frames too, which are slow to look up. Of each device at most the last
    `max_entries` events are kept, but none of `skip_actions`.

    Raises ValueError for other values, NotImplementedError for what only CUDA records.
    """
    if compile_context or global_record_annotations:
        raise NotImplementedError(
            "torch.npu.memory records neither compile ids nor annotations: leave compile_context and "
            "global_record_annotations off"
        )
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    _check_choice("enabled", enabled, (None, "state", "all"))
    _check_choice("context", context, tuple(_CONTEXTS))
    _check_choice("stacks", stacks, ("python", "all"))
    if max_entries < 1:
        raise ValueError(f"max_entries must be at least 1, got {max_entries}")
    if device is not None:
        device_index(device)  # torch.cuda takes one, and records all devices, too
    module = extension()
    settings = module.HistorySettings()
    settings.on = enabled is not None
    settings.events = enabled == "all"
    settings.stacks = getattr(module.StacksOf, _CONTEXTS[context])
    settings.cpp_frames = stacks == "all"
    settings.max_events = max_entries
    for action in skip_actions or ():
        _check_choice("skip_actions", action, tuple(module.MEMORY_ACTIONS))
        settings.skipped |= 1 << module.MEMORY_ACTIONS.index(action)
    module.record_memory_history(settings, clear_history)


def _snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The allocator's segments (as `torch.npu.memory_snapshot`) and what was recorded on each device.

    A dict with "segments", "device_traces" (a list of events for each device), "allocator_settings". With `device`,
    what is on the others is left out. `augment_with_fx_traces` adds the model's lines to frames of code that FX made.
    """
    snapshot = extension().memory_history()
    if device is not None:
        index = device_index(device)
        snapshot["segments"] = [segment for segment in snapshot["segments"] if segment["device"] == index]
        snapshot["device_traces"] = [
            trace if number == index else [] for number, trace in enumerate(snapshot["device_traces"])
        ]
    return torch._utils._augment_memory_snapshot_stack_traces(snapshot) if augment_with_fx_traces else snapshot


def _dump_snapshot(filename: str | Path = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes `_snapshot()` to a file that pytorch.org/memory_viz shows. Raises OSError if it cannot be written."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with open(filename, "wb") as file:
        pickle.dump(snapshot, file)


@contextlib.contextmanager
def leak_check() -> Iterator[None]:
    """`with torch.npu.memory.leak_check():` raises MemoryLeakError if memory that was allocated in the block, by any
    thread and on any device, is still in use after it. The error lists the allocations, largest first: size, device and
    the lines from where each was made.

    Garbage is collected before both looks. A block that raises is not checked.
    """
    module = extension()
    gc.collect()
    first = module.allocation_count()
    with _stacks_of_blocks(module):
        yield
        gc.collect()
        left = [
            (block["requested_size"], segment["device"], block["frames"])
            for segment in module.memory_snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated" and block["allocation"] > first
        ]
    if left:
        left.sort(key=lambda leak: leak[0], reverse=True)
        listed = "; ".join(_describe(*leak) for leak in left[:_LISTED_LEAKS])
        more = f"; and {len(left) - _LISTED_LEAKS} smaller ones" if len(left) > _LISTED_LEAKS else ""
        raise MemoryLeakError(count=len(left), size=sum(size for size, _, _ in left), allocations=listed + more)


@contextlib.contextmanager
def _stacks_of_blocks(module: Any) -> Iterator[None]:
    """Keeps the stacks of what is allocated; a recording that is on goes on, with its own settings."""
    settings = module.HistorySettings()
    settings.on = True
    settings.stacks = module.StacksOf.Blocks
    before = module.record_memory_history(settings)
    if before.on:
        module.record_memory_history(before)
    try:
        yield
    finally:
        if not before.on:
            module.record_memory_history(before)


def _describe(size: int, device: int, frames: Sequence[dict[str, Any]]) -> str:
    own = [frame for frame in frames if not frame["filename"].startswith(str(Path(torch.__file__).parent))]
    lines = [f"{frame['filename']}:{frame['line']} ({frame['name']})" for frame in own[:_LISTED_FRAMES]]
    return f"{size} bytes on npu:{device}, from {', '.join(lines) or 'no line of Python'}"


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")

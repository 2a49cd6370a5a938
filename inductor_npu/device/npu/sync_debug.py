"""Finds where a program makes the host wait for the device."""

from __future__ import annotations

from inductor_npu.device.npu.runtime import extension

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens where the program makes the host wait as it would on a chip: nothing ("default" or 0), a warning
    ("warn", 1) or a RuntimeError ("error", 2).

    Such places are `item()`, copies between host and device without `non_blocking` and pinned memory, and operators
    whose results' sizes depend on values (`nonzero`, `masked_select`, `unique`). `synchronize` of a device, stream or
    event is asked for and not reported. That other operators of the library run on the calling thread is the embedded
    NPU's own and not reported either. Raises ValueError for another mode.
    """
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if mode not in range(len(_MODES)):
        raise ValueError(f"the mode must be one of 0, 1, 2, 'default', 'warn', 'error', got {debug_mode!r}")
    extension().set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    """The mode that is set: 0, 1 or 2."""
    return extension().get_sync_debug_mode()

"""The embedded NPU's configuration: the target's facts and the user's environment."""

from __future__ import annotations

import os
import re
from typing import Any

from inductor_npu.errors import DeviceSettingError
from inductor_npu.providers import current_target
from inductor_npu.target import NpuTarget

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_MOST_DEVICES = 8


def device_settings() -> dict[str, Any]:
    """The arguments of `_C.configure`, from INDUCTOR_NPU_TARGET and INDUCTOR_NPU_SIM_DEVICES and _MEMORY. Memory is in
    bytes, for each device.

    In a job (torchrun, or another launcher that sets LOCAL_RANK) there are as many devices as ranks on the host, since
    each rank chooses the one of its number (`torch.npu.set_device(local_rank)`); at most 8.

    Raises UnknownTargetError or DeviceSettingError, which name the variable and what it may be.
    """
    target = current_target()
    devices = _integer("INDUCTOR_NPU_SIM_DEVICES", default=_ranks_on_this_host(), low=1, high=_MOST_DEVICES)
    return {
        "target": target.name,
        "devices": devices,
        "memory_bytes": _memory(target, devices),
        "vector_cores": target.vector_cores,
        "max_grid": target.max_grid,
        "more_devices": f"Set INDUCTOR_NPU_SIM_DEVICES (1 to {_MOST_DEVICES}) before the first use to simulate more",
        "more_memory": "The capacity is set by INDUCTOR_NPU_SIM_MEMORY (such as 8GiB) and "
        "torch.npu.set_per_process_memory_fraction",
        "no_more_memory": "The host itself has no more memory: device memory of the embedded NPU is host memory",
    }


def host_threads() -> int:
    """How many threads of the host INDUCTOR_NPU_SIM_THREADS asks for; 0: as many as torch uses.

    Raises DeviceSettingError, which names the variable and what it may be.
    """
    return _integer("INDUCTOR_NPU_SIM_THREADS", default=0, low=0, high=4096)


def _ranks_on_this_host() -> int:
    ranks, rank = (os.environ.get(name, "").strip() for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    least = int(rank) + 1 if rank.isdecimal() else 1  # of a launcher that says no more than that
    return min(max(int(ranks) if ranks.isdecimal() else 1, least), _MOST_DEVICES)


def parse_size(text: str) -> int:
    """Bytes of a size such as 1073741824, 512MiB, 8G or 1.5gb (units are powers of 1024).

    Raises ValueError if it is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 512MiB or 8GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _memory(target: NpuTarget, devices: int) -> int:
    variable = "INDUCTOR_NPU_SIM_MEMORY"
    if text := os.environ.get(variable):
        try:
            size = parse_size(text)
        except ValueError:
            size = 0
        if size <= 0:
            raise DeviceSettingError(variable=variable, value=text, expected="a size in bytes, such as 512MiB or 8GiB")
        return size
    # Device memory is host memory: all devices together leave half of it to the rest of the host.
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = host // 2 // devices
    return share if target.memory is None else min(target.memory, share)


def _integer(variable: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise DeviceSettingError(variable=variable, value=text, expected=f"a whole number from {low} to {high}")
    return int(text)

"""Devices of the embedded NPU: how many, which is current, what they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import torch

from inductor_npu.device import build
from inductor_npu.device.npu.runtime import _is_in_bad_fork, extension
from inductor_npu.providers import current_target

DeviceLike: TypeAlias = int | str | torch.device | None


@dataclass(frozen=True)
class NpuDeviceProperties:
    """Facts of one device. `total_memory` is in bytes; `multi_processor_count` counts the vector cores."""

    name: str
    total_memory: int
    multi_processor_count: int
    cube_core_num: int
    vector_core_num: int


def device_index(device: DeviceLike) -> int:
    """The index of `device` (None, or one without index: the current device).

    Raises ValueError if it is not an npu.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if device is None:
        return current_device()
    wanted = torch.device(device)
    if wanted.type != "npu":
        raise ValueError(f"expected an npu device, got {wanted}")
    return current_device() if wanted.index is None else wanted.index


def is_available() -> bool:
    """Whether tensors can be made on device npu: it is built, or there is a compiler to build it. Does not load it."""
    return not _is_in_bad_fork() and build.can_load()


def device_count() -> int:
    """Number of devices, as the runtime's settings say. Does not load the device."""
    loaded = build.loaded()
    return loaded.device_count() if loaded is not None else build.settings()["devices"]


def current_device() -> int:
    """Index of this thread's current device."""
    if torch.compiler.is_dynamo_compiling():
        return torch.accelerator.current_device_index()  # a constant of the graph, with a guard
    return extension().current_device()


def set_device(device: DeviceLike) -> None:
    """Makes `device` this thread's current device; a negative index does nothing."""
    index = device_index(device)
    if index >= 0:
        extension().set_device(index)


def _exchange_device(index: int) -> int:
    return extension().exchange_device(index) if index >= 0 else -1


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


class device:  # noqa: N801 - torch's own spelling
    """Context manager that makes a device current. None or a negative index leaves it as it is."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager that makes the device of a tensor or storage current.

    For one that is not on an npu it does nothing.
    """

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.get_device() if obj.device.type == "npu" else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work of `device`, then raises the first failure among it, which names the operator or kernel."""
    index = device_index(device)
    if torch.compiler.is_dynamo_compiling():
        torch.accelerator.synchronize(index)  # which Dynamo puts into the graph
    else:
        extension().synchronize(index)


def utilization(device: DeviceLike = None) -> int:
    """Per cent of the next 20 ms in which `device` has work to do, from 20 looks at it."""
    index, looks = device_index(device), 20
    busy = 0
    for _ in range(looks):
        busy += not extension().query(index)
        time.sleep(0.001)
    return busy * 100 // looks


def get_device_properties(device: DeviceLike = None) -> NpuDeviceProperties:
    """Facts of the chip that is simulated; all devices are alike. Does not load the device."""
    if device is not None and (index := device_index(device)) not in range(device_count()):
        raise AssertionError(f"Invalid device id {index}: there are {device_count()} npu devices")
    target = current_target()
    return NpuDeviceProperties(
        name=target.name,
        total_memory=build.settings()["memory_bytes"],
        multi_processor_count=target.vector_cores,
        cube_core_num=target.cube_cores,
        vector_core_num=target.vector_cores,
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Name of the chip, such as Ascend910B3."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> None:
    """None: NPUs have no compute capability. torch_npu answers the same."""


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether `device` can copy from `peer_device` directly: always, between different devices."""
    one, other = device_index(device), device_index(peer_device)
    for index in (one, other):
        extension().check_device(index)
    return one != other


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("npu") takes."""
    return [torch.float16, torch.bfloat16] if is_bf16_supported() else [torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the chip computes in bfloat16."""
    return "bf16" in current_target().float_types

"""Dynamo's and Inductor's view of device `npu`: thin names over the Python module `torch.npu`."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface

from inductor_npu.device_interface.facts import NpuFacts, npu_module


class ThroughTorchNpu(DeviceInterface):
    """Devices, streams and events by functions of `torch.npu`, which has torch_npu's surface whoever provides it."""

    device = npu_module().device
    Event = npu_module().Event
    Stream = npu_module().Stream

    @staticmethod
    def is_available() -> bool:
        return npu_module().is_available()

    @staticmethod
    def device_count() -> int:
        return npu_module().device_count()

    @staticmethod
    def current_device() -> int:
        return npu_module().current_device()

    @staticmethod
    def set_device(device: torch.types.Device) -> None:
        npu_module().set_device(device)

    @staticmethod
    def stream(stream: torch.Stream) -> Any:
        return npu_module().stream(stream)

    @staticmethod
    def current_stream(device: torch.types.Device = None) -> torch.Stream:
        return npu_module().current_stream(device)

    @staticmethod
    def set_stream(stream: torch.Stream) -> None:
        npu_module().set_stream(stream)

    @staticmethod
    def synchronize(device: torch.types.Device = None) -> None:
        npu_module().synchronize(device)


class NpuInterface(NpuFacts, ThroughTorchNpu):
    """Device `npu` for Dynamo and Inductor: what needs no device (properties, dtypes) is answered from the target's
    facts, so that compile workers and cache lookups never open one.
    """

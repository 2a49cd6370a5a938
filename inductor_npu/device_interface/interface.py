"""Dynamo's and Inductor's view of device `npu`: thin names over the Python module `torch.npu`."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import exc
from torch._dynamo.device_interface import DeviceInterface, caching_worker_current_devices

from inductor_npu import providers
from inductor_npu.device_interface.properties import NpuDeviceProperties, device_properties

DEVICE = "npu"


def _npu() -> Any:
    return getattr(torch, DEVICE)


def _load_raw_stream() -> Callable[[int], int]:
    return pkgutil.resolve_name(providers.current_provider().raw_stream)


class NpuInterface(DeviceInterface):
    """Device `npu` for Dynamo and Inductor.

    `torch.npu` has torch_npu's surface whoever provides it; what needs no device (properties, dtypes) is answered
    from the target's facts, so that compile workers and cache lookups never open one.
    """

    device = _npu().device
    Event = _npu().Event
    Stream = _npu().Stream

    class Worker:
        """Answers in a compile worker, which must not open the device."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices[DEVICE] = device

        @staticmethod
        def current_device() -> int:
            if DEVICE in caching_worker_current_devices:
                return caching_worker_current_devices[DEVICE]
            return _npu().current_device()

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> NpuDeviceProperties:
            return device_properties()

    @staticmethod
    def is_available() -> bool:
        return _npu().is_available()

    @staticmethod
    def device_count() -> int:
        return _npu().device_count()

    @staticmethod
    def current_device() -> int:
        return _npu().current_device()

    @staticmethod
    def set_device(device: torch.types.Device) -> None:
        _npu().set_device(device)

    @staticmethod
    def exchange_device(device: int) -> int:
        """Makes `device` current and returns the device that was. A negative index changes nothing and returns -1."""
        return torch._C._accelerator_exchangeDevice(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        """As exchange_device, but leaves a device alone that was never used."""
        return torch._C._accelerator_maybeExchangeDevice(device)

    @staticmethod
    def stream(stream: torch.Stream) -> Any:
        return _npu().stream(stream)

    @staticmethod
    def current_stream(device: torch.types.Device = None) -> torch.Stream:
        return _npu().current_stream(device)

    @staticmethod
    def set_stream(stream: torch.Stream) -> None:
        _npu().set_stream(stream)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        torch._C._accelerator_setStream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The handle of the current stream of a device, as kernel launches take it."""
        return _load_raw_stream()(device_idx)

    @staticmethod
    def synchronize(device: torch.types.Device = None) -> None:
        _npu().synchronize(device)

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """The target's name: what the Triton target's `arch` and Ascend's `--target` are called."""
        return providers.current_target().name

    @staticmethod
    def memory_allocated(device: torch.types.Device = None) -> int:
        return _npu().memory_allocated(device)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return "bf16" in providers.current_target().float_types

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype != torch.bfloat16 or cls.is_bf16_supported(including_emulation)

    @staticmethod
    def is_gpu() -> bool:
        """Whether Inductor generates code for this device as it does for GPUs: guards, copies of misaligned inputs,
        merged loops. Asked from torch 2.15 on, once, when Inductor is imported; before, see compat.
        """
        return True

    @classmethod
    def get_cache_system_info(cls) -> dict[str, object]:
        """What decides generated code beside its source, for the keys of Inductor's caches (torch 2.15): the target's
        facts, whoever provides the device.
        """
        return {"provider": providers.current_provider().name, "target": dataclasses.asdict(providers.current_target())}

    @staticmethod
    def is_triton_capable(device: torch.types.Device = None) -> bool:
        return True

    @classmethod
    def raise_if_triton_unavailable(cls, device: torch.types.Device = None) -> None:
        """Raises RuntimeError, saying what to install, if Triton has no backend for npu: torch's own
        TritonUnavailableError where there is one, by which it knows a device without Triton.
        """
        from triton.backends import backends

        provider = providers.current_provider()
        if not any(name in backends for name in (DEVICE, provider.name)):
            raise getattr(exc, "TritonUnavailableError", RuntimeError)(
                f"Triton has no backend for npu (it has: {', '.join(backends) or 'none'}); "
                f"reinstall {'triton-ascend' if provider is providers.ASCEND else 'inductor-npu'} in this environment"
            )

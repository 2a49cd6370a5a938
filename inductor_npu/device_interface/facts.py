"""Answers to Dynamo and Inductor that are the same for every provider of `npu`: facts of the target, and PyTorch's own
accelerator functions.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from typing import Any

import torch
from torch._dynamo.device_interface import caching_worker_current_devices

from inductor_npu import providers
from inductor_npu.device_interface.properties import NpuDeviceProperties, device_properties

DEVICE = "npu"


def npu_module() -> Any:
    """`torch.npu`, which the provider brings."""
    return getattr(torch, DEVICE)


class NpuFacts:
    """The part of a DeviceInterface that no provider decides; goes before the provider's own class."""

    class Worker:
        """Answers in a compile worker, which must not open the device."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices[DEVICE] = device

        @staticmethod
        def current_device() -> int:
            if DEVICE in caching_worker_current_devices:
                return caching_worker_current_devices[DEVICE]
            return npu_module().current_device()

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> NpuDeviceProperties:
            return device_properties()

    @staticmethod
    def exchange_device(device: int) -> int:
        """Makes `device` current and returns the device that was. A negative index changes nothing and returns -1."""
        return torch._C._accelerator_exchangeDevice(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        """As exchange_device, but leaves a device alone that was never used."""
        return torch._C._accelerator_maybeExchangeDevice(device)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        torch._C._accelerator_setStream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The handle of the current stream of a device, as kernel launches take it."""
        return pkgutil.resolve_name(providers.current_provider().raw_stream)(device_idx)

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """The target's name: what the Triton target's `arch` and Ascend's `--target` are called."""
        return providers.current_target().name

    @staticmethod
    def memory_allocated(device: torch.types.Device = None) -> int:
        return npu_module().memory_allocated(device)

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
        from torch._dynamo import exc
        from triton.backends import backends

        provider = providers.current_provider()
        if not any(name in backends for name in (DEVICE, provider.name)):
            raise getattr(exc, "TritonUnavailableError", RuntimeError)(
                f"Triton has no backend for npu (it has: {', '.join(backends) or 'none'}); "
                f"reinstall {'triton-ascend' if provider is providers.ASCEND else 'inductor-npu'} in this environment"
            )

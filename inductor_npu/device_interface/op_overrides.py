"""The lines of generated Python that name the device: guards, streams, synchronisation."""

from __future__ import annotations

from torch._inductor.codegen.common import DeviceOpOverrides

from inductor_npu import providers


class NpuDeviceOpOverrides(DeviceOpOverrides):
    """What Inductor's Python wrapper writes for `npu`. Every line works with whichever provider owns `torch.npu`."""

    def import_get_raw_stream_as(self, name: str) -> str:
        module, function = providers.current_provider().raw_stream.split(":")
        return f"from {module} import {function} as {name}"

    def set_device(self, device_idx: int | str) -> str:
        return f"{providers.current_provider().set_device}({device_idx})"

    def synchronize(self) -> str:
        return "torch.npu.synchronize()"

    def device_guard(self, device_idx: int | str) -> str:
        return f"{providers.current_provider().device_guard}({device_idx})"

    def current_device_idx_expr(self) -> str:
        """Where one rank compiles for all, generated code asks for the device's index instead of naming it."""
        return "torch.npu.current_device()"

    def aten_device_type(self) -> str:
        return "at::kPrivateUse1"

    def current_stream(self) -> str:
        return "torch.npu.current_stream()"

"""`torch.backends.npu`: whether the device is there, and how exact its arithmetic must be.

torch_npu has no such module; the names are those that torch.backends has for its own devices.
"""

from __future__ import annotations

from inductor_npu.device import build
from inductor_npu.device.npu.devices import is_available as is_available
from inductor_npu.device.npu.options import conv as conv
from inductor_npu.device.npu.options import matmul as matmul


def is_built() -> bool:
    """Whether the device's library is there, or can be made by the compiler of this machine when it is needed."""
    return build.can_load()


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"module 'torch.backends.npu' has no attribute {name!r}: it has is_available, is_built, matmul and conv. Which "
        "kernel computes attention is chosen by torch.nn.attention.sdpa_kernel"
    )

"""Switches that programs written for Ascend set, with their meaning on the embedded NPU.

They choose how CANN, the software below torch_npu, compiles and stores things. A value that describes what this device
does anyway is accepted. Any other value raises, because it would have no effect.
"""

from __future__ import annotations


def set_compile_mode(jit_compile: bool = False) -> None:
    """Whether eager operators are compiled for each shape. They never are here: True raises NotImplementedError."""
    if jit_compile:
        raise NotImplementedError(
            "the embedded NPU runs eager operators without compiling them: use set_compile_mode(jit_compile=False), "
            "and torch.compile for fused kernels"
        )


def is_jit_compile_false() -> bool:
    """True: eager operators are not compiled."""
    return True


class Config:
    """`torch.npu.config`."""

    @property
    def allow_internal_format(self) -> bool:
        """Whether tensors may be kept in a chip's private formats: never here, and True raises NotImplementedError."""
        return False

    @allow_internal_format.setter
    def allow_internal_format(self, allow: bool) -> None:
        if allow:
            raise NotImplementedError(
                "the embedded NPU keeps every tensor in PyTorch's own layout: set "
                "torch.npu.config.allow_internal_format to False, or leave it alone"
            )


class AllowHf32:
    """`torch.npu.matmul` and `torch.npu.conv`: whether float32 may be rounded to HF32 there. A permission, of which the
    embedded NPU makes no use: its results are float32's."""

    def __init__(self, allow_hf32: bool) -> None:
        self.allow_hf32 = allow_hf32


config = Config()
matmul = AllowHf32(False)
conv = AllowHf32(True)

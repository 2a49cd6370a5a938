"""Dynamo's and Inductor's view of torch_npu's device: torch_npu's own interface, whose functions Dynamo knows, with
Inductor's questions answered from the target's facts.
"""

from __future__ import annotations

from inductor_npu.device_interface.facts import NpuFacts

try:
    from torch_npu.utils._dynamo_device import NpuInterface
except ImportError:  # a package of that name that brings torch.npu without it: torch.npu is all that ours needs
    from inductor_npu.device_interface.interface import ThroughTorchNpu as NpuInterface


class AscendInterface(NpuFacts, NpuInterface):
    """Device `npu` where torch_npu drives it. torch_npu's own class says that it has no Triton, counts no memory and
    knows no warp size.
    """

"""Dynamo's and Inductor's view of torch_npu's device: torch_npu's own, which Dynamo knows by its functions, with what
Inductor asks of it answered from the target's facts.
"""

from __future__ import annotations

from torch_npu.utils._dynamo_device import NpuInterface

from inductor_npu.device_interface.facts import NpuFacts


class AscendInterface(NpuFacts, NpuInterface):
    """Device `npu` where torch_npu drives it. torch_npu's own class says that it has no Triton, counts no memory and
    knows no warp size.
    """

"""What a chip is, as data: the only place that holds facts of a chip."""

from inductor_npu.target.npu_target import NpuTarget
from inductor_npu.target.registry import get_target, known_targets, register_target

__all__ = ["NpuTarget", "get_target", "known_targets", "register_target"]

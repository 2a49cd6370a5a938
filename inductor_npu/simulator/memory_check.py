"""Checked mode: whether this process checks its kernels' memory accesses (docs/checked-mode.md)."""

from __future__ import annotations

from inductor_npu.support.switches import is_on

CHECKED_VARIABLE = "INDUCTOR_NPU_CHECKED"  # 1: kernels are compiled and run with checks


def is_checked() -> bool:
    """Whether kernels that are compiled now get checks. Set for a whole process, before its first use of a device."""
    return is_on(CHECKED_VARIABLE)

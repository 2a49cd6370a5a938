"""The modes of a process that change how the embedded NPU's kernels are compiled."""

from __future__ import annotations

from inductor_npu.simulator import memory_check

from . import launch_record


def compile_modes() -> dict[str, str]:
    """Each mode by its variable: "1" where kernels that are compiled now are compiled for it, else "0"."""
    return {
        launch_record.RECORD_VARIABLE: str(int(launch_record.is_counting())),
        memory_check.CHECKED_VARIABLE: str(int(memory_check.is_checked())),
    }

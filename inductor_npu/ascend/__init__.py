"""Ascend's own compiler as a tool: what the chip's compiler makes of a model's kernels, on a machine without the chip.

    from inductor_npu.ascend import check

    report = check(model, x)  # runs it on the embedded NPU, compiles its kernels with Ascend's compiler
    print(report.table())

docs/ascend.md is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inductor_npu.ascend.checking import check, check_program
    from inductor_npu.ascend.report import Report

__all__ = ["Report", "check", "check_program"]
_HOMES = {
    "Report": "inductor_npu.ascend.report",
    "check": "inductor_npu.ascend.checking",
    "check_program": "inductor_npu.ascend.checking",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: nothing here is needed by a process that only compiles."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

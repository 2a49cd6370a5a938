"""What code generation sets in Inductor's own variables, for which a backend has no hook. No code is replaced."""

from __future__ import annotations

from typing import Any


def count_kernels(more: int) -> None:
    """Corrects Inductor's count of generated kernels, which counts every object of its class that is made: one that
    writes a part of another is none of its own, and the copy of another is one.
    """
    from torch._inductor import metrics

    metrics.generated_kernel_count += more


def leave_uncaptured(graph: Any, reason: str) -> None:
    """Has Inductor not capture `graph`, and log why: its own field, which its lowerings set where something cannot be
    captured.
    """
    graph.disable_cudagraphs_reason = reason

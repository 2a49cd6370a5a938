"""mode="reduce-overhead" asks for graph capture, which npu does not have yet: say so, once, and run without it."""

from __future__ import annotations

import functools
import warnings

from inductor_npu.errors import NpuWarning


@functools.cache
def warn_missing() -> None:
    """Gives the warning once in a process. Generated modules call it when they load, so that a graph from the cache
    says it too.
    """
    warnings.warn(
        'torch.compile(mode="reduce-overhead"): npu has no graph capture yet; the graph runs correctly, launched '
        'kernel by kernel. Use mode="default" to silence this.',
        NpuWarning,
        stacklevel=2,
    )

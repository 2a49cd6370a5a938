"""The hash of Triton's library, which keys of kernels and graphs have in them: taken beside Dynamo's tracing.

It reads 400 MB in each process that compiles, a tenth of a warm start. torch 2.13 can take it in a thread of its own
(`prefetch`) and lets whoever asks meanwhile wait, but does so nowhere by itself. Versions without it take it where it
is asked for. The hash of torch's own files is left where it is: thousands of small files, for each of which that
thread and the one that traces would wait for each other.
"""

from __future__ import annotations

import functools
from typing import Any

from inductor_npu.import_hooks import after_import


def take_beside_tracing() -> None:
    """Has the hash taken from the first compile on, or as soon as that has imported Inductor."""
    from torch._dynamo.callback import on_compile_start

    on_compile_start(_begin)


def _begin(_: Any) -> None:
    import torch

    module = getattr(torch, "npu", None)
    if module is not None and module.is_initialized():  # what is compiled may be for npu
        _once()


@functools.cache
def _once() -> None:
    # All of Inductor and Triton is there then: the thread imports nothing that this one is importing.
    after_import("torch._inductor.compile_fx", prefetch)


def prefetch() -> None:
    """Starts to take the hash, unless caches are off or this torch cannot; returns at once."""
    from torch._inductor import codecache, config
    from torch._inductor.runtime import triton_compat

    start = getattr(getattr(codecache, "triton_key", None), "prefetch", None)
    if start is not None and triton_compat.HAS_TRITON and not config.force_disable_caches:
        start()

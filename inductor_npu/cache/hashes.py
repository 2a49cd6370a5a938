"""Provides the hashes of torch's and Triton's files, which are part of the keys of kernels and graphs, before their
use.

torch's hash, over thousands of small files, is stored (`library_hashes`) for the next process, and given to torch when
the first compile begins. Without a stored hash, it is computed at that moment: another thread would gain nothing, since
it and the tracing thread would wait for each other at each file. Another thread computes Triton's hash, over a library
of 400 MB, from the moment on at which Inductor is imported, as every compile needs it, on any device: torch 2.13 has a
function for this (`prefetch`), which makes other callers wait, but never calls it.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from inductor_npu.cache import library_hashes
from inductor_npu.cache.entry import Entry
from inductor_npu.cache.location import kernel_store
from inductor_npu.support.import_hooks import after_import


def take_early(since: float) -> None:
    """Has Triton's hash computed once Inductor is imported, and gives torch its own at the first compile.

    Before `since` (seconds of the epoch) nobody in this process can have taken one.
    """
    from torch._dynamo.callback import on_compile_start

    # All of Inductor and Triton is there then: the thread imports nothing that this one is importing.
    after_import("torch._inductor.compile_fx", prefetch_triton)
    on_compile_start(functools.partial(_begin, since))


def _begin(since: float, _: Any) -> None:
    import torch

    module = getattr(torch, "npu", None)
    if module is not None and module.is_initialized():  # what is compiled may be for npu
        _once(since)


@functools.cache
def _once(since: float) -> None:
    after_import("torch._inductor.compile_fx", functools.partial(give_torch, since))


def prefetch_triton() -> None:
    """Begins to compute the hash of Triton's files in another thread; unless caches are off."""
    from torch._inductor import codecache, config
    from torch._inductor.runtime import triton_compat

    prefetch = getattr(getattr(codecache, "triton_key", None), "prefetch", None)
    if prefetch is not None and triton_compat.HAS_TRITON and not config.force_disable_caches:
        prefetch()
        # A forked process has no such thread, and would wait for it without end.
        os.register_at_fork(before=codecache.triton_key)


def give_torch(since: float) -> None:
    """Gives torch the hash of its files; unless caches are off."""
    from torch._inductor import codecache, config

    if config.force_disable_caches:
        return
    # A torch that cannot be given its hash takes it by itself where it needs it, as without us.
    if hasattr(getattr(codecache, "torch_key", None), "set"):
        with suppress(RuntimeError, AssertionError):  # it has it, taken in this process (2.11: AssertionError)
            codecache.torch_key.set(_kept_or_taken(since))


def _kept_or_taken(since: float) -> bytes:
    """The hash of torch's files: what an earlier process kept; else it is taken, and kept where that is safe."""
    import torch
    from torch._inductor import codecache

    from inductor_npu import config

    if config.cache == "off":
        return codecache.torch_key()
    key = library_hashes.key_of(Path(torch.__file__).parent, str(torch.__version__), since)
    entry = None if key is None else kernel_store().read(key)
    if entry is not None:
        return entry.content
    taken = codecache.torch_key()
    if key is not None:
        kernel_store().write(Entry(key, taken))
    return taken

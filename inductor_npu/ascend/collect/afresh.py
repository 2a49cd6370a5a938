"""Compiles again what was compiled before, because only a fresh compile records the origins of kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.instrumentation import instrumentation_mode

# Read by torch when it is imported: no graph is taken from Inductor's caches. Kernels may be: they are machine code.
WITHOUT_CACHED_GRAPHS = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}

_CHECKED = "npu-check"  # instrumentation mode: kernels that were loaded outside are loaded again inside


@contextlib.contextmanager
def compiled_afresh() -> Iterator[None]:
    """Compiled graphs and kernels of this process are made anew inside, where they are observed; and again after it.
    Inside nothing is left to the library because of this host's times.
    """
    import torch
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config
    from torch._inductor.utils import clear_caches

    from inductor_npu import config

    torch._dynamo.reset()
    clear_caches()
    try:
        with (
            inductor_config.patch(fx_graph_cache=False),
            functorch_config.patch(enable_autograd_cache=False),
            instrumentation_mode(_CHECKED),
            config.patch(templates="all" if config.templates == "auto" else config.templates),
        ):
            yield
    finally:
        torch._dynamo.reset()
        clear_caches()

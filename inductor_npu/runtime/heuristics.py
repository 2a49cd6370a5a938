"""From the blocks that the code generator chose to an autotuner. Generated source imports this module under the name
`triton_heuristics`.

Each function here is a decorator with the keywords of Inductor's function of the same name; the blocks already contain
what these keywords say of sizes and kinds of loops. Where Inductor offers several candidates and times them at the
first call, there is one here: max-autotune compares tiles earlier (codegen/scheduling/tuning.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.runtime import triton_heuristics as stock
from torch._inductor.runtime.hints import HeuristicType
from torch._inductor.runtime.triton_compat import Config

from inductor_npu.runtime.autotuner import NpuAutotuner, NpuDebugAutotuner

Meta = dict[str, Any]
Decorator = Callable[[Any], Any]


def _planned(kind: HeuristicType, triton_meta: Meta, inductor_meta: Meta, filename: Any) -> Decorator:
    """The blocks that the code generator chose, which its metadata hold.

    No others may be tried at run time: the kernel has no masks where these blocks need none.
    """
    return stock.cached_autotune(
        None,
        [Config(dict(inductor_meta["npu_blocks"]), num_warps=1, num_stages=1)],
        triton_meta=triton_meta,
        inductor_meta={**inductor_meta, "coordinate_descent_tuning": False},
        heuristic_type=kind,
        filename=filename,
        caching_autotuner_cls=NpuAutotuner,
        debug_autotuner_cls=NpuDebugAutotuner,
    )


def pointwise(triton_meta: Meta, inductor_meta: Meta, filename: str | None = None, **_hints: Any) -> Decorator:
    """A kernel without reductions."""
    return _planned(HeuristicType.POINTWISE, triton_meta, inductor_meta, filename)


def reduction(triton_meta: Meta, inductor_meta: Meta, filename: str | None = None, **_hints: Any) -> Decorator:
    """A reduction that reads its row in a loop."""
    return _planned(HeuristicType.REDUCTION, triton_meta, inductor_meta, filename)


def persistent_reduction(
    triton_meta: Meta, inductor_meta: Meta, filename: str | None = None, **_hints: Any
) -> Decorator:
    """A reduction whose whole row is on chip; the row's block is fixed in the kernel's source."""
    return _planned(HeuristicType.PERSISTENT_REDUCTION, triton_meta, inductor_meta, filename)


def foreach(triton_meta: Meta, inductor_meta: Meta, filename: str | None = None, **_hints: Any) -> Decorator:
    """A kernel of many loops, all of whose blocks are in its source."""
    return _planned(HeuristicType.POINTWISE, triton_meta, inductor_meta, filename)


def user_autotune(
    configs: list[Any],
    triton_meta: Meta,
    filename: str | None = None,
    inductor_meta: Meta | None = None,
    custom_kernel: bool = False,
) -> Decorator:
    """A kernel that the user wrote: the user's own configurations, tried in turn where there are several."""
    return stock.cached_autotune(
        None,
        [stock.config_from_dict(config) for config in configs] or [Config({})],
        triton_meta=triton_meta,
        heuristic_type=HeuristicType.USER_AUTOTUNE,
        filename=filename,
        inductor_meta=inductor_meta,
        custom_kernel=custom_kernel,
        caching_autotuner_cls=NpuAutotuner,
        debug_autotuner_cls=NpuDebugAutotuner,
    )

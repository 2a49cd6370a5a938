"""`max-autotune`: finds the best of a few tiles once for a kernel and a chip, and keeps it on disk.

Candidates are timed on the device. Where there is none, or config.tune_by says so, the cost model ranks them. Either
way Inductor's module has one kernel with one tile: tuning leaves nothing behind but an entry in the tile cache, which
the next process reads instead of trying again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence

import torch
from torch._inductor import config as inductor_config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.utils import Placeholder

from inductor_npu import config, providers
from inductor_npu.cache import tiles
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.index.vector_text import CannotEmit
from inductor_npu.device_interface.benchmarker import benchmark_npu, benchmarking
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.errors import KernelTooLargeError, SettingError

log = logging.getLogger(__name__)

# Tiles that are tried for one kernel, including the default one.
_MOST_CANDIDATES = 8

# Times that differ by less count as equal: one kernel's time varies that much from run to run.
_TOLERANCE = 0.05

# How often and how long each tile is timed.
_ROUNDS = 3
_ROUND_MS = 10

# Values of config.tune_by: how candidates are compared.
_TIME, _MODEL = "time", "model"

# The name of the kernel in the source of a candidate.
_NAME = "triton_"


def is_wanted() -> bool:
    """Whether the user asked for max-autotune, of all or of pointwise kernels."""
    return bool(inductor_config.max_autotune or inductor_config.max_autotune_pointwise)


def tuned(default: KernelPlan, share: float, source_of: Callable[[KernelPlan], str]) -> KernelPlan:
    """Returns the plan of a kernel with the best tile: `default` or one near it.

    Candidates fill at most `share` (0 to 1) of the Unified Buffer. `source_of` writes the kernel of a plan, with
    functions that make example inputs and launch it. Raises SettingError if config.tune_by has an unknown value.
    """
    with timed(Phase.TUNING):
        return _tuned(default, share, source_of)


def _tuned(default: KernelPlan, share: float, source_of: Callable[[KernelPlan], str]) -> KernelPlan:
    if config.tune_by not in (_TIME, _MODEL):
        raise SettingError(variable="INDUCTOR_NPU_TUNE_BY", value=config.tune_by, expected=f"{_TIME} or {_MODEL}")
    source = source_of(default)
    is_timed = config.tune_by == _TIME and torch.npu.is_available()
    fields = _fields(source, is_timed)
    if not inductor_config.force_disable_caches and (kept := tiles.read(fields)) is not None:
        return default.with_tile(kept)
    among = default.candidates(share, _MOST_CANDIDATES)
    scores = _times(among, source, source_of) if is_timed else [plan.cycles for plan in among]
    best = nearest(among, scores)
    log.debug("tile %s of %s", best.tile, [(plan.tile, score) for plan, score in zip(among, scores, strict=True)])
    if not inductor_config.force_disable_caches:
        tiles.write(fields, best.tile)
    return best


def nearest(among: Sequence[KernelPlan], scores: Sequence[float | None]) -> KernelPlan:
    """Returns the first plan whose score is the least, or nearly so; a score of None stands for a tile without a
    kernel.

    The default, which is first, is returned if no tile has a kernel.
    """
    least = min((score for score in scores if score is not None), default=0.0)
    for plan, score in zip(among, scores, strict=True):
        if score is not None and score <= least * (1 + _TOLERANCE):
            return plan
    return among[0]


def _fields(source: str, is_timed: bool) -> dict[str, str]:
    """What decides which tile is best: the kernel, by its source with the default tile; the chip, and the versions of
    all that generates code; where times are taken.
    """
    return {
        "source": hashlib.sha256(source.encode()).hexdigest(),
        "toolchain": config.toolchain,
        "torch": torch.__version__,
        "measured on": f"{providers.current_provider().name}, {torch.get_num_threads()} threads" if is_timed else "",
    }


def _times(among: Sequence[KernelPlan], source: str, source_of: Callable[[KernelPlan], str]) -> list[float | None]:
    """Milliseconds of a launch with each tile, the least of several rounds, so that other load of the machine affects
    all tiles alike; None where the tile has no kernel, or does not fit after all.
    """
    launches = [_launch_of(plan, source if plan is among[0] else None, source_of) for plan in among]
    times: list[float | None] = [None] * len(among)
    for _ in range(_ROUNDS):
        for number, launch in enumerate(launches):
            if launch is not None:
                milliseconds = benchmark_npu(None, launch, rep=_ROUND_MS)
                times[number] = min(milliseconds, times[number] or milliseconds)
    return times


def _launch_of(
    plan: KernelPlan, source: str | None, source_of: Callable[[KernelPlan], str]
) -> Callable[[], object] | None:
    """A launch of the kernel of `plan` on example inputs; None where that is not possible."""
    try:
        module = PyCodeCache.load((source or source_of(plan)).replace(str(Placeholder.KERNEL_NAME), _NAME))
        arguments = module.get_args()
        with benchmarking():
            module.call(arguments)
    except (CannotEmit, KernelTooLargeError) as error:
        log.debug("no kernel with tile %s: %s", plan.tile, error)
        return None
    used = getattr(module, _NAME).launchers[0].config.kwargs
    if any(used.get(f"{axis.upper()}BLOCK", block) != block for axis, block in plan.tile.blocks.items()):
        log.debug("tile %s does not fit: %s was taken", plan.tile, used)
        return None
    return lambda: module.call(arguments)

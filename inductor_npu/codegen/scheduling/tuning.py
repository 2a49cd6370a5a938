"""`max-autotune`: the best of a few tiles, found once for a kernel and a chip and kept on disk.

Candidates are timed on the device where there is one; where there is none, or where config.tune_by says so, the cost
model ranks them. Either way the module that Inductor writes has one kernel with one tile: what was tried leaves nothing
behind but an entry in the tile cache, which the next process reads instead of trying again.
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
from inductor_npu.codegen.index.vector_text import CannotEmit
from inductor_npu.device_interface.benchmarker import benchmark_npu, benchmarking
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.errors import KernelTooLargeError, SettingError
from inductor_npu.tiling.candidates import candidates
from inductor_npu.tiling.cost import cost
from inductor_npu.tiling.plan import KernelSummary, TilePlan

log = logging.getLogger(__name__)

# Tiles that are tried of one kernel, the default one among them.
_MOST_CANDIDATES = 8

# Times that differ by less are equal: so much one kernel's time varies from run to run.
_TOLERANCE = 0.05

# Each tile is timed so often, so long.
_ROUNDS = 3
_ROUND_MS = 10

# How candidates are compared: config.tune_by.
_TIME, _MODEL = "time", "model"

# What the kernel is called in the source of a candidate.
_NAME = "triton_"


def is_wanted() -> bool:
    """Whether the user asked for max-autotune, of all or of pointwise kernels."""
    return bool(inductor_config.max_autotune or inductor_config.max_autotune_pointwise)


def tuned(work: KernelSummary, default: TilePlan, share: float, source_of: Callable[[TilePlan], str]) -> TilePlan:
    """The best tile of a kernel: `default` or one near it. `source_of` writes the kernel with a tile, with functions
    that make example inputs and launch it.

    Raises SettingError if config.tune_by is neither.
    """
    with timed(Phase.TUNING):
        return _tuned(work, default, share, source_of)


def _tuned(work: KernelSummary, default: TilePlan, share: float, source_of: Callable[[TilePlan], str]) -> TilePlan:
    if config.tune_by not in (_TIME, _MODEL):
        raise SettingError(variable="INDUCTOR_NPU_TUNE_BY", value=config.tune_by, expected=f"{_TIME} or {_MODEL}")
    source = source_of(default)
    is_timed = config.tune_by == _TIME and torch.npu.is_available()
    fields = _fields(source, is_timed)
    if not inductor_config.force_disable_caches and (kept := tiles.read(fields)) is not None:
        return kept
    chip = providers.current_target()
    among = candidates(work, default, chip, share, _MOST_CANDIDATES)
    scores = _times(among, source, source_of) if is_timed else [cost(work, tile, chip).cycles for tile in among]
    best = nearest(among, scores)
    log.debug("tile %s of %s", best, list(zip(among, scores, strict=True)))
    if not inductor_config.force_disable_caches:
        tiles.write(fields, best)
    return best


def nearest(among: Sequence[TilePlan], scores: Sequence[float | None]) -> TilePlan:
    """The first tile whose score is the least or nearly so; None is a tile without a kernel. The default, which is
    first, is taken if there is none with a kernel.
    """
    least = min((score for score in scores if score is not None), default=0.0)
    for tile, score in zip(among, scores, strict=True):
        if score is not None and score <= least * (1 + _TOLERANCE):
            return tile
    return among[0]


def _fields(source: str, is_timed: bool) -> dict[str, str]:
    """What decides which tile is best: the kernel, by its source with the default tile; the chip and the versions of
    all that makes code; where times are taken.
    """
    return {
        "source": hashlib.sha256(source.encode()).hexdigest(),
        "toolchain": config.toolchain,
        "torch": torch.__version__,
        "measured on": f"{providers.current_provider().name}, {torch.get_num_threads()} threads" if is_timed else "",
    }


def _times(among: Sequence[TilePlan], source: str, source_of: Callable[[TilePlan], str]) -> list[float | None]:
    """Milliseconds of a launch with each tile, the least of several rounds, so that what else the machine does
    meanwhile falls on all tiles alike; None where there is no kernel with the tile, or it does not fit after all.
    """
    launches = [_launch_of(tile, source if tile is among[0] else None, source_of) for tile in among]
    times: list[float | None] = [None] * len(among)
    for _ in range(_ROUNDS):
        for number, launch in enumerate(launches):
            if launch is not None:
                milliseconds = benchmark_npu(None, launch, rep=_ROUND_MS)
                times[number] = min(milliseconds, times[number] or milliseconds)
    return times


def _launch_of(tile: TilePlan, source: str | None, source_of: Callable[[TilePlan], str]) -> Callable[[], object] | None:
    """A launch of the kernel with `tile` on example inputs; None where that is not possible."""
    try:
        module = PyCodeCache.load((source or source_of(tile)).replace(str(Placeholder.KERNEL_NAME), _NAME))
        arguments = module.get_args()
        with benchmarking():
            module.call(arguments)
    except (CannotEmit, KernelTooLargeError) as error:
        log.debug("no kernel with tile %s: %s", tile, error)
        return None
    used = getattr(module, _NAME).launchers[0].config.kwargs
    if any(used.get(f"{axis.upper()}BLOCK", block) != block for axis, block in tile.blocks.items()):
        log.debug("tile %s does not fit: %s was taken", tile, used)
        return None
    return lambda: module.call(arguments)

"""(f) Collectives of npu tensors against gloo's of CPU tensors of the same size, between processes of this host."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.ranks import job

SIZES = tuple(4096 * 4**step for step in range(8))  # bytes: 4 KiB to 64 MiB
RANKS = (2, 4)
QUEUED = 8  # collectives that are asked for before the first is waited for
LARGEST_QUEUE = 64 << 20  # bytes in a queue, if it is of more than two
SECONDS_PER_SIDE = 0.75
LONGEST_SECONDS = 300  # for one size: then the ranks are killed


@dataclass(frozen=True)
class CollectiveTime:
    """Median seconds of one collective between `ranks` processes. `size`: bytes of the reduced or the gathered tensor.

    npu, gloo: each call is waited for. npu_queued, gloo_queued: one of `QUEUED` that are queued together. `correct`:
    both sides have the values that they should have.
    """

    name: str
    ranks: int
    size: int
    npu: float
    gloo: float
    npu_queued: float
    gloo_queued: float
    correct: bool

    @property
    def ratio(self) -> float:
        """npu's time in gloo's."""
        return self.npu / self.gloo

    @property
    def queued_ratio(self) -> float:
        """The same of those that are queued together."""
        return self.npu_queued / self.gloo_queued

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {**asdict(self), "ratio": self.ratio, "queued_ratio": self.queued_ratio}


def measure(
    ranks: int, turns: int, sizes: tuple[int, ...] = SIZES, seconds_per_side: float = SECONDS_PER_SIDE
) -> list[CollectiveTime]:
    """One row for each collective and size. Raises RankError if a rank fails or does not answer in time."""
    rows = []
    with job(ranks) as processes:
        for name in COLLECTIVES:
            for size in sizes:
                answers = processes.run(_on_each_rank, name, size, turns, seconds_per_side, seconds=LONGEST_SECONDS)
                rows.append(_combined(name, ranks, size, answers))
    return rows


def _combined(name: str, ranks: int, size: int, answers: list[tuple[dict[str, list[float]], bool]]) -> CollectiveTime:
    """A turn takes as long as on the slowest rank."""
    medians = {
        side: statistics.median(map(max, zip(*(times[side] for times, _ in answers), strict=True)))
        for side in answers[0][0]
    }
    return CollectiveTime(name, ranks, size, **medians, correct=all(correct for _, correct in answers))


# --- On each rank -----------------------------------------------------------------------------------------------------


class _AllReduce:
    """On one device, in place: zeros stay zeros however often they are added."""

    def __init__(self, device: str, size: int) -> None:
        self._tensor = torch.zeros(size // 4, device=device)

    def start(self) -> dist.Work | None:
        return dist.all_reduce(self._tensor, async_op=True)

    def is_correct(self) -> bool:
        self._tensor.fill_(float(dist.get_rank() + 1))
        dist.all_reduce(self._tensor)
        ranks = dist.get_world_size()
        correct = bool((self._tensor == ranks * (ranks + 1) / 2).all())
        self._tensor.zero_()
        return correct


class _AllGather:
    """On one device."""

    def __init__(self, device: str, size: int) -> None:
        ranks = dist.get_world_size()
        self._part = torch.full((size // 4 // ranks,), float(dist.get_rank()), device=device)
        self._whole = torch.zeros(size // 4, device=device)

    def start(self) -> dist.Work | None:
        return dist.all_gather_into_tensor(self._whole, self._part, async_op=True)

    def is_correct(self) -> bool:
        dist.all_gather_into_tensor(self._whole, self._part)
        parts = self._whole.chunk(dist.get_world_size())
        return all(bool((part == rank).all()) for rank, part in enumerate(parts))


COLLECTIVES = {"all_reduce": _AllReduce, "all_gather_into_tensor": _AllGather}


def _on_each_rank(name: str, size: int, turns: int, seconds_per_side: float) -> tuple[dict[str, list[float]], bool]:
    """Seconds of one collective in each turn of each side, and whether the values are right."""
    warnings.filterwarnings("ignore", "`torch.distributed.all_gather_into_tensor`", FutureWarning)
    queued = min(QUEUED, max(2, LARGEST_QUEUE // size))
    on_npu, on_cpu = ([COLLECTIVES[name](device, size) for _ in range(queued)] for device in ("npu", "cpu"))
    correct = all(each.is_correct() for each in (*on_npu, *on_cpu))
    sides: dict[str, Callable[[], None]] = {
        "npu": lambda: _one_by_one(on_npu, torch.npu.synchronize),
        "gloo": lambda: _one_by_one(on_cpu, None),
        "npu_queued": lambda: _together(on_npu, torch.npu.synchronize),
        "gloo_queued": lambda: _together(on_cpu, None),
    }
    times: dict[str, list[float]] = {side: [] for side in sides}
    order = list(sides)
    for _ in range(_turns_within(seconds_per_side, sides["gloo"], turns)):
        for side in order:
            times[side].append(_seconds(sides[side]) / queued)
        order.append(order.pop(0))
    return times, correct


def _one_by_one(collectives: list[Any], synchronize: Callable[[], None] | None) -> None:
    for each in collectives:
        each.start().wait()
        if synchronize is not None:
            synchronize()


def _together(collectives: list[Any], synchronize: Callable[[], None] | None) -> None:
    for work in [each.start() for each in collectives]:
        work.wait()
    if synchronize is not None:
        synchronize()


def _turns_within(seconds: float, function: Callable[[], None], most: int) -> int:
    """As many as take `seconds` on rank 0, because ranks have to agree: `most`, or fewer, but five."""
    _seconds(function)
    turns = torch.tensor([max(5, min(most, round(seconds / _seconds(function))))])
    dist.broadcast(turns, 0)
    return int(turns)


def _seconds(function: Callable[[], None]) -> float:
    """Of the second of two calls, from when all ranks are there: the other sides' threads have gone to sleep."""
    function()
    dist.all_reduce(torch.zeros(1))
    start = time.perf_counter()
    function()
    return time.perf_counter() - start

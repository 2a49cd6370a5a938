"""(g) A training step of DistributedDataParallel: compiled on npu against eager on the CPU, and how much of its
collectives runs beside kernels.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.ranks import job

RANKS = 2
LAYERS, WIDTH, EXAMPLES = 4, 1024, 256  # examples of each rank
BUCKET_MIB = 4  # the weights of one layer: its gradients are on their way while those of the layer before are computed
STEPS_WITH_TIME_LINE = 10
LONGEST_SECONDS = 300
# The names of collectives in the time line.
ALL_REDUCE = "all_reduce"

# Begin and end, in one unit of time.
Interval = tuple[float, float]


@dataclass(frozen=True)
class DataParallelTime:
    """Median seconds of one step of `ranks` processes, forward, backward and optimizer.

    collectives, overlap: seconds of a step on npu in which an all_reduce was running, and in which one and a kernel of
    the backward pass, or of the optimizer, were. From the time line of rank 0, medians. `correct`: after the same steps
    the parameters of both sides are the same.
    """

    ranks: int
    compiled: float
    eager: float
    collectives: float
    overlap: float
    correct: bool

    @property
    def ratio(self) -> float:
        """The compiled step's time in that of the eager one."""
        return self.compiled / self.eager

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {**asdict(self), "ratio": self.ratio}


def measure(turns: int, ranks: int = RANKS, width: int = WIDTH) -> DataParallelTime:
    """Both sides train the same model, in turn. Raises RankError if a rank fails or does not answer in time."""
    with job(ranks) as processes:
        answers = processes.run(_on_each_rank, turns, width, seconds=LONGEST_SECONDS)
    sides = {
        side: statistics.median(map(max, zip(*(times[side] for times, *_ in answers), strict=True)))
        for side in ("compiled", "eager")
    }
    _, collectives, overlap, _ = answers[0]
    return DataParallelTime(
        ranks, **sides, collectives=collectives, overlap=overlap, correct=all(a[3] for a in answers)
    )


def overlapping(some: Iterable[Interval], others: Iterable[Interval]) -> float:
    """How long at least one of `some` and at least one of `others` ran at the same time."""
    one, other = _union(some), _union(others)
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time, in intervals that do not touch each other."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


# --- On each rank -----------------------------------------------------------------------------------------------------


class _Model(nn.Module):
    """Has a forward of its own, because Dynamo leaves that of nn.Sequential alone below DistributedDataParallel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x


class _Trained:
    """A model, its optimizer and this rank's examples, on one device."""

    def __init__(self, device: str, width: int, compiles: bool) -> None:
        torch.manual_seed(1)
        self.model = _Model(width).to(device)
        module = DistributedDataParallel(self.model, bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True)
        self._module: Callable[[torch.Tensor], torch.Tensor] = torch.compile(module) if compiles else module
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(dist.get_rank())
        self._x, self._y = (torch.randn(EXAMPLES, width, generator=generator).to(device) for _ in range(2))
        self._synchronize = torch.get_device_module(device).synchronize

    def step(self) -> None:
        self._optimizer.zero_grad()
        F.mse_loss(self._module(self._x), self._y).backward()
        self._optimizer.step()
        self._synchronize()

    def has_values_of(self, other: _Trained) -> bool:
        pairs = zip(self.model.parameters(), other.model.parameters(), strict=True)
        return all(torch.allclose(a.detach().cpu(), b.detach().cpu(), rtol=1e-4, atol=1e-5) for a, b in pairs)


def _on_each_rank(turns: int, width: int) -> tuple[dict[str, list[float]], float, float, bool]:
    """Seconds of each turn's step on both sides; of a step's collectives, and of these beside kernels; and whether both
    sides have learnt the same.
    """
    sides = {"compiled": _Trained("npu", width, compiles=True), "eager": _Trained("cpu", width, compiles=False)}
    for _ in range(3):
        for side in sides.values():
            side.step()
    correct = sides["compiled"].has_values_of(sides["eager"])
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(turns):
        for name in order:
            times[name].append(_seconds(sides[name].step))
        order.append(order.pop(0))
    pieces = [_time_line(sides["compiled"].step) for _ in range(STEPS_WITH_TIME_LINE)]
    collectives = statistics.median(overlapping(running, running) for running, _ in pieces)
    return times, collectives, statistics.median(overlapping(*piece) for piece in pieces), correct


def _seconds(step: Callable[[], None]) -> float:
    dist.all_reduce(torch.zeros(1))  # all ranks are there
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _time_line(step: Callable[[], None]) -> tuple[list[Interval], list[Interval]]:
    """When all_reduces and when other work of the device ran in one step, in seconds."""
    dist.all_reduce(torch.zeros(1))
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        step()
    collectives: list[Interval] = []
    others: list[Interval] = []
    for event in profile.events():
        # Annotations are named ranges, and waits of a stream for another one.
        if event.device_type == torch.autograd.DeviceType.PrivateUse1 and not event.is_user_annotation:
            interval = event.time_range.start / 1e6, event.time_range.end / 1e6
            (collectives if event.name == ALL_REDUCE else others).append(interval)
    return collectives, others

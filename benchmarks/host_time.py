"""(d) Host time of compiled functions: a chain of small kernels, launched one by one and as a captured graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.timing import median_seconds

KERNELS = (1, 10, 100)
ELEMENTS = 256
SECONDS_PER_SIDE = 3.0


@dataclass(frozen=True)
class HostTime:
    """Median seconds of one call of a function with so many kernels, the device's work included.

    dynamo: the function with a backend that computes nothing, what Dynamo takes for itself. replay: the graph alone, by
    `NPUGraph.replay`, until it is done. queued: the same until the calling thread goes on.
    """

    kernels: int
    dynamo: float
    default: float
    captured: float
    replay: float
    queued: float
    inductor: float
    eager: float

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return asdict(self)


def measure(rounds: int) -> list[HostTime]:
    """One row for each length of the chain."""
    return [_measure(kernels, rounds) for kernels in KERNELS]


def chain_of(kernels: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of `kernels` steps, each of which needs all of the one before."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(kernels):
            x = (x * 0.5).cumsum(0)
        return x

    return chain


def _measure(kernels: int, rounds: int) -> HostTime:
    torch._dynamo.reset()
    function = chain_of(kernels)
    host = torch.ones(ELEMENTS)
    npu = host.npu()
    # No two steps become one kernel.
    apart: dict[str, Any] = {"max_fusion_size": 1}
    inductor, default = torch.compile(function, options=apart), torch.compile(function, options=apart)
    captured = torch.compile(function, options={**apart, "triton.cudagraphs": True})
    with torch.no_grad():
        known = (function(npu),)
        dynamo = torch.compile(function, backend=lambda *_: lambda *_: known)
        for compiled, x in ((inductor, host), (default, npu), (captured, npu)):
            for _ in range(3):
                result = compiled(x)
            torch.testing.assert_close(result.cpu(), function(host))
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            default(npu)
        assert len(graph.kernels()) == kernels, f"a chain of {kernels} kernels has {len(graph.kernels())}"
        seconds = median_seconds(
            {
                "dynamo": (lambda: dynamo(npu), "npu"),
                "default": (lambda: default(npu), "npu"),
                "captured": (lambda: captured(npu), "npu"),
                "replay": (lambda: (graph.replay(), torch.npu.synchronize()), "npu"),
                "queued": (graph.replay, "npu"),
                "inductor": (lambda: inductor(host), "cpu"),
                "eager": (lambda: function(host), "cpu"),
            },
            rounds,
            SECONDS_PER_SIDE,
        )
    return HostTime(kernels, **seconds)

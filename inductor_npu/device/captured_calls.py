"""Captures compiled functions on the embedded NPU, for runtime/graph_capture.

A provider's module of this kind has `captured`, `replayed_call` and `is_of_graph`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_npu.device import build

_capturing = threading.RLock()  # all captures are on one stream of a device


def captured(
    function: Callable[[list[Any]], Sequence[Any]], arguments: list[Any], device: torch.device
) -> tuple[Any, Sequence[Any]]:
    """The graph of `function(arguments)` on `device`, and the results, which replays fill. Nothing runs yet. All graphs
    of a device share a memory pool.

    Raises what a capture raises; there is no graph then, and its memory is given back.
    """
    graph = build.load().NpuGraph(watched=False)  # a replay is told where its arguments are
    with _capturing, torch.npu.device(device), torch.npu.stream(_side_stream(device.index)):
        graph.capture_begin(_pool(device.index))
        try:
            results = function(arguments)
        except BaseException:
            graph.reset()
            raise
        graph.capture_end()
    return graph, results


def replayed_call(graph: Any, inputs: list[Any], outputs: list[Any]) -> Callable[[list[Any], int], Any]:
    """`(arguments, step) -> results`, by a replay: see `_C.ReplayedCall`."""
    return build.load().ReplayedCall(graph, inputs, outputs)


def is_of_graph(address: int) -> bool:
    """Whether the memory at `address` belongs to a captured graph, whose results always lie at the same addresses."""
    return build.load().is_of_private_pool(address)


@functools.cache
def _side_stream(device: int) -> torch.npu.Stream:
    return torch.npu.Stream(device)


@functools.cache
def _pool(device: int) -> tuple[int, int]:
    return build.load().new_pool_id(by_user=False)

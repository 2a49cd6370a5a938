"""Captures compiled functions on the embedded NPU, for runtime/graph_capture.

A provider's module of this kind has `capture` and `is_of_graph`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_npu.simulator.device import build


def capture(
    function: Callable[[list[Any]], Sequence[Any]], arguments: Sequence[Any], copied: set[int], writes: bool
) -> Callable[[list[Any], int], Any]:
    """A callable that does what `function` does, by a replay: see `_C.ReplayedCall`. Nothing runs yet.

    `arguments` has tensors of npu, which the graph uses where they are, but for those with an index in `copied`, and
    numbers. With `writes` those that are copied are copied back.

    Raises what a capture raises; there is no graph then, and its memory is given back.
    """
    device = next(value.device for value in arguments if isinstance(value, torch.Tensor))
    statics = [_room_for(value) if index in copied else value for index, value in enumerate(arguments)]
    graph, results = _captured(function, list(statics), device)
    inputs = [_input(value, index in copied, writes) for index, value in enumerate(statics)]
    outputs = [_output(value, statics) for value in results]
    return build.load().ReplayedCall(graph, inputs, outputs)


def is_of_graph(address: int) -> bool:
    """Whether the memory at `address` belongs to a captured graph, whose results always lie at the same addresses."""
    return build.load().is_of_private_pool(address)


def _captured(
    function: Callable[[list[Any]], Sequence[Any]], arguments: list[Any], device: torch.device
) -> tuple[Any, Sequence[Any]]:
    extension = build.load()
    graph = extension.NpuGraph(watched=False)  # a replay is told where its arguments are
    with torch.npu.device(device), torch.npu.stream(_side_stream(device.index)):
        graph.capture_begin(_pool(device.index))
        try:
            results = function(arguments)
        except BaseException:
            graph.reset()
            raise
        graph.capture_end()
    return graph, results


@functools.cache
def _side_stream(device: int) -> torch.npu.Stream:
    return torch.npu.Stream(device)


@functools.cache
def _pool(device: int) -> tuple[int, int]:
    """The one pool of all compiled functions: forward and backward passes, all sizes."""
    return build.load().new_pool_id(by_user=False)


def _room_for(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)


def _input(static: Any, is_copied: bool, writes: bool) -> Any:
    if not isinstance(static, torch.Tensor) or static.numel() == 0:
        return None
    return (static, writes) if is_copied else static.data_ptr()


def _output(value: Any, statics: Sequence[Any]) -> Any:
    """A result that lies in an argument's memory is a view of that argument, wherever it is in a later call."""
    if not isinstance(value, torch.Tensor):
        return value
    for index, static in enumerate(statics):
        if isinstance(static, torch.Tensor) and _share_memory(value, static):
            return index, tuple(value.size()), tuple(value.stride()), value.storage_offset() - static.storage_offset()
    return value


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata and one.untyped_storage().nbytes() > 0

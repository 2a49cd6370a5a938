"""Captures compiled functions with torch_npu's graphs, for runtime/graph_capture.

torch_npu's storages cannot be given other memory behind the program's back, hence a replay that would overwrite results
that are still held does nothing, and says so: the call is launched kernel by kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_npu.runtime.graph_capture.capturing import OTHER_CAPTURE, RESULTS_HELD, without_repetitions

# The calls of each device in the order in which they were captured. All their graphs share a memory pool: results of a
# later graph may lie where an earlier one keeps intermediate values.
_calls: dict[int, list[ReplayedCall]] = {}


def captured(
    function: Callable[[list[Any]], Sequence[Any]], arguments: list[Any], device: torch.device
) -> tuple[Any, Sequence[Any]]:
    """The graph of `function(arguments)` on `device`, and the results, which replays fill. Nothing runs yet.

    Raises what a capture raises; there is no graph then.
    """
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize(device)
    with torch.npu.device(device), torch.npu.stream(_side_stream(device.index)):
        graph.capture_begin(pool=_pool(device.index))
        try:
            results = function(arguments)
        finally:
            graph.capture_end()
    return graph, results


def replayed_call(graph: Any, inputs: list[Any], outputs: list[Any]) -> ReplayedCall:
    """`(arguments, step) -> results`, by a replay. runtime/graph_capture/capturing.py describes both lists."""
    return ReplayedCall(graph, inputs, outputs)


def is_of_graph(address: int) -> bool:
    """Whether a result of a captured graph lies at `address`."""
    return any(address in call.addresses for calls in _calls.values() for call in calls)


class ReplayedCall:
    """A captured function, called with a list of arguments, which it empties."""

    def __init__(self, graph: Any, inputs: list[Any], outputs: list[Any]) -> None:
        self._graph = graph
        self._fixed = [(index, place) for index, place in enumerate(inputs) if isinstance(place, int)]
        self._copied = [(index, *place) for index, place in enumerate(inputs) if isinstance(place, tuple)]
        self._outputs = outputs
        tensors = [value for value in outputs if isinstance(value, torch.Tensor)]
        self.addresses = {tensor.data_ptr() for tensor in tensors}
        self._storages = [tensor.untyped_storage() for tensor in tensors]
        self._uses = [_uses(storage) for storage in self._storages]
        self._later = _calls.setdefault(torch.npu.current_device(), [])
        self._later.append(self)

    def __call__(self, arguments: list[Any], step: int) -> list[Any] | int:
        """The results; or, if nothing was done, the index of an argument that has moved, -1 if the stream captures
        another graph, -2 if a replay would overwrite results that are still held. `step` is of no use here.
        """
        if torch.npu.is_current_stream_capturing():
            return OTHER_CAPTURE
        for index, address in self._fixed:
            if arguments[index].data_ptr() != address:
                return index
        if any(call.is_held() for call in self._later[self._later.index(self) :]):
            return RESULTS_HELD
        for index, place, _ in self._copied:
            without_repetitions(place).copy_(without_repetitions(arguments[index]), non_blocking=True)
        self._graph.replay()
        for index, place, is_written in self._copied:
            if is_written:
                without_repetitions(arguments[index]).copy_(without_repetitions(place), non_blocking=True)
        results = [self._result(value, arguments) for value in self._outputs]
        arguments.clear()
        return results

    def is_held(self) -> bool:
        """Whether the program holds a result of the last call."""
        return any(_uses(storage) > uses for storage, uses in zip(self._storages, self._uses, strict=True))

    def _result(self, value: Any, arguments: list[Any]) -> Any:
        if isinstance(value, torch.Tensor):
            result = torch.empty(0, dtype=value.dtype, device=value.device)
            return result.set_(value.untyped_storage(), value.storage_offset(), value.size(), value.stride())
        if isinstance(value, tuple):
            index, sizes, strides, offset = value
            return arguments[index].as_strided(sizes, strides, arguments[index].storage_offset() + offset)
        return value


def _uses(storage: torch.UntypedStorage) -> int:
    return torch._C._storage_Use_Count(storage._cdata)


@functools.cache
def _side_stream(device: int) -> Any:
    return torch.npu.Stream(device)


@functools.cache
def _pool(device: int) -> Any:
    return torch.npu.graph_pool_handle()

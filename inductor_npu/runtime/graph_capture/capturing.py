"""Captures a call of a compiled function: gives copied arguments a place, and describes arguments and results to the
provider, whose replays follow that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from inductor_npu import providers

Replay = Callable[[list[Any], int], Any]
# What a replay answers, in place of results, when it has done nothing: the index of an argument that has moved, or
OTHER_CAPTURE = -1  # the stream captures another graph
RESULTS_HELD = -2  # it would overwrite results that are still held, and cannot move them


def capture(
    function: Callable[[list[Any]], Sequence[Any]],
    arguments: Sequence[Any],
    copied: Collection[int],
    written: Collection[int] | None,
) -> Replay:
    """What does `function(arguments)` by a replay: `(arguments, step) -> results`, which also empties the list of
    arguments. Nothing runs yet.

    `arguments` has tensors of npu, of meta, and numbers. The graph uses the tensors where they are, but for those with
    an index in `copied`. Of these, those in `written` (None: all) are copied back, and those in whose memory a result
    lies, as with memory that a backward pass may use again.

    Raises what a capture raises; there is no graph then, and its memory is given back.
    """
    provider = providers.captured_calls()
    devices = (value.device for value in arguments if isinstance(value, torch.Tensor) and value.device.type == "npu")
    device = next(devices, None) or torch.device("npu", torch.npu.current_device())
    statics = [room_for(value) if index in copied else value for index, value in enumerate(arguments)]
    graph, results = provider.captured(function, list(statics), device)
    outputs = [_output(value, statics) for value in results]
    returned = {value[0] for value in outputs if isinstance(value, tuple)}
    inputs = [
        _input(value, index in copied, written is None or index in written or index in returned)
        for index, value in enumerate(statics)
    ]
    return provider.replayed_call(graph, inputs, outputs)


def room_for(value: torch.Tensor) -> torch.Tensor:
    """Memory for a copy of `value`, in its strides."""
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)


def without_repetitions(value: torch.Tensor) -> torch.Tensor:
    """`value` without the repetitions along axes of stride 0, as an expanded tensor has them."""
    sizes = [1 if stride == 0 else size for size, stride in zip(value.size(), value.stride(), strict=True)]
    return value.as_strided(sizes, value.stride(), value.storage_offset())


def _input(static: Any, is_copied: bool, is_written: bool) -> Any:
    """Where an argument has to be: its address, (tensor to copy to, whether to copy back), or None: anywhere."""
    if not isinstance(static, torch.Tensor) or static.numel() == 0 or static.device.type == "meta":
        return None
    return (static, is_written) if is_copied else static.data_ptr()


def _output(value: Any, statics: Sequence[Any]) -> Any:
    """What a result is: a tensor of the graph, a value, or, where it lies in an argument's memory, (the argument's
    index, sizes, strides, offset from it): a view of that argument, wherever it is in a later call.
    """
    if not isinstance(value, torch.Tensor):
        return value
    for index, static in enumerate(statics):
        if isinstance(static, torch.Tensor) and _share_memory(value, static):
            return index, tuple(value.size()), tuple(value.stride()), value.storage_offset() - static.storage_offset()
    return value


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata and one.untyped_storage().nbytes() > 0

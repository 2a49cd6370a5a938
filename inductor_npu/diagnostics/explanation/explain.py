"""`inductor_npu.explain` and the summary when a process ends."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from inductor_npu.diagnostics.explanation.explanation import Explanation
from inductor_npu.diagnostics.explanation.recorder import Recorder, record_explanation, so_far
from inductor_npu.support import one_call


def explain_call(
    function: Callable[..., Any], examples: Sequence[Any], keywords: Mapping[str, Any], backward: bool
) -> Explanation:
    """`inductor_npu.explain`: see there."""
    compiled = function if one_call.is_compiled(function) else torch.compile(function)
    tensors = one_call.tensors_of(function, (examples, keywords))
    with record_explanation() as recorded, one_call.undone(function, tensors):
        one_call.call(compiled, examples, keywords, backward)
        for device in one_call.devices_of(tensors):
            torch.get_device_module(device).synchronize(device)
    return recorded.explanation


def summarise_at_exit() -> None:
    """Records from now on, and prints to standard error when the process ends, if there is something to say."""
    recorder = Recorder()
    recorder.start()
    atexit.register(_print, recorder)


def _print(recorder: Recorder) -> None:
    from inductor_npu.support import terminal

    recorder.stop()
    if recorder.has_heard():
        terminal.output(stderr=True).print(so_far(recorder))

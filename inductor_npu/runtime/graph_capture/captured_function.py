"""A compiled function whose launches are captured: the first call of a size runs it as it is, which compiles and tunes
kernels; the second captures it; the third and later ones replay.

Arguments. One that lay at the same address in the first two calls, as parameters do, or in a graph's memory, as what a
captured forward pass saves, is used where it is. Others are copied to where the graph reads them. If one that was used
where it is moves, the function is captured again, with a copy of it. Results: see csrc/replayed_call.h.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

from inductor_npu import config, providers
from inductor_npu.runtime.graph_capture.capturing import (
    OTHER_CAPTURE,
    RESULTS_HELD,
    Replay,
    capture,
    room_for,
    without_repetitions,
)
from inductor_npu.runtime.graph_capture.statistics import CaptureStatistics

Function = Callable[[list[Any]], Sequence[Any]]

_ALIGNMENT = 16  # bytes; what kernels are compiled for
_NESTED = "the stream captures another graph"  # the kernels become part of that graph: no loss, and not logged
_OF_ANOTHER_THREAD = "another thread than the one that captured calls it"

_claiming = threading.Lock()


@dataclass
class _Size:
    """What is known of one combination of the numbers among the arguments."""

    addresses: list[int | None]  # of the tensors of the first call, then of the one that was captured
    moved: set[int] = field(default_factory=set)  # arguments that are copied because they do not stay where they were
    captures: int = 0
    replay: Replay | None = None


class CapturedFunction:
    """`function` takes a list of arguments, which it empties, and returns a list of results, as Inductor's do."""

    def __init__(
        self,
        function: Function,
        numbers: Sequence[int] | None,
        *,
        statistics: CaptureStatistics,
        written: Collection[int] | None,
    ) -> None:
        """`numbers`: which arguments are no tensors (None: the first call tells). `written`: which arguments the
        function may write (None: any).
        """
        self._function = function
        self._numbers = numbers
        self._statistics = statistics
        self._written = written
        self._sizes: dict[tuple[Any, ...], _Size] = {}
        self._thread: int | None = None

    def __call__(self, arguments: list[Any]) -> Any:
        if self._numbers is None:
            self._numbers = [index for index, value in enumerate(arguments) if not isinstance(value, torch.Tensor)]
        key = tuple([arguments[index] for index in self._numbers])
        size = self._sizes.get(key)
        if size is None or size.replay is None or threading.get_ident() != self._thread:
            return self._first_calls(arguments, key, size)
        results = size.replay(arguments, current_step())
        if type(results) is int:
            return self._not_replayed(arguments, key, size, results)
        self._statistics.replayed += 1
        return results

    def _first_calls(self, arguments: list[Any], key: tuple[Any, ...], size: _Size | None) -> Any:
        if size is None and not _is_to_be_captured(key):
            return self._launch(arguments)
        if reason := self._obstacle(arguments, size):
            return self._skip(arguments, reason)
        if size is None:
            self._sizes[key] = _Size(_addresses(arguments))
            self._statistics.warmed_up += 1
            return self._launch(arguments)
        with _claiming:
            self._thread = self._thread or threading.get_ident()
        if self._thread != threading.get_ident():
            return self._skip(arguments, _OF_ANOTHER_THREAD)
        return self._capture(arguments, key, size)

    def _obstacle(self, arguments: list[Any], size: _Size | None) -> str | None:
        if any(isinstance(value, torch.Tensor) and value.device.type not in ("npu", "meta") for value in arguments):
            return "an argument is a tensor of another device"
        if torch.npu.is_current_stream_capturing():
            return _NESTED
        if self._thread not in (None, threading.get_ident()):
            return _OF_ANOTHER_THREAD
        if size is None and len(self._sizes) >= config.capture_sizes:
            return f"more than {config.capture_sizes} combinations of sizes (config.capture_sizes)"
        if size is not None and size.captures >= config.capture_moves:
            return f"its arguments moved more than {config.capture_moves} times (config.capture_moves)"
        return None

    def _skip(self, arguments: list[Any], reason: str) -> Any:
        if reason not in self._statistics.skipped and reason != _NESTED:
            log_cudagraph_skip_and_bump_counter(f"skipping captured graphs of npu: {reason}")
        self._statistics.skipped[reason] += 1
        return self._launch(arguments)

    def _launch(self, arguments: list[Any]) -> Any:
        """Kernel by kernel. Kernels expect aligned arguments; those that Inductor has not aligned are copied."""
        misaligned = {index: value for index, value in enumerate(arguments) if _is_misaligned(value)}
        if not misaligned:
            return self._function(arguments)
        copies = {index: room_for(value).copy_(value) for index, value in misaligned.items()}
        for index, copy in copies.items():
            arguments[index] = copy
        results = self._function(arguments)
        for index, value in misaligned.items():
            if self._written is None or index in self._written:
                value.copy_(copies[index])
        return results

    def _capture(self, arguments: list[Any], key: tuple[Any, ...], size: _Size) -> Any:
        copied = self._copied(arguments, size)
        if any(_overlaps_itself(arguments[index]) for index in copied):
            return self._skip(arguments, "an argument's elements share memory")
        size.captures += 1
        size.addresses = _addresses(arguments)
        try:
            size.replay = capture(self._function, arguments, copied, self._written)
        except RuntimeError as error:  # such as an operator that cannot be captured
            size.captures = config.capture_moves  # not again
            return self._skip(arguments, str(error).partition("\n")[0])
        self._statistics.captured += 1
        results = size.replay(arguments, current_step())
        if type(results) is int:
            return self._not_replayed(arguments, key, size, results)
        self._statistics.replayed += 1
        return results

    def _copied(self, arguments: list[Any], size: _Size) -> set[int]:
        """The arguments that a replay has to copy."""
        is_of_graph = providers.captured_calls().is_of_graph
        copied = set()
        for index, (value, address) in enumerate(zip(arguments, size.addresses, strict=True)):
            if not isinstance(value, torch.Tensor) or value.numel() == 0 or value.device.type == "meta":
                continue
            stays = value.data_ptr() == address or is_of_graph(value.data_ptr())
            if not stays or index in size.moved or _is_misaligned(value):
                copied.add(index)
        return copied

    def _not_replayed(self, arguments: list[Any], key: tuple[Any, ...], size: _Size, reason: int) -> Any:
        if reason == OTHER_CAPTURE:
            return self._skip(arguments, _NESTED)
        if reason == RESULTS_HELD:
            return self._skip(arguments, "results that a replay would overwrite are still held")
        if providers.captured_calls().is_of_graph(size.addresses[reason] or 0):
            # What a captured forward pass saved, moved because that pass ran again before this backward pass.
            return self._skip(arguments, "what an earlier call saved has moved")
        size.moved.add(reason)
        size.replay = None
        return self._first_calls(arguments, key, size)


def current_step() -> int:
    """How often the program has said that earlier results of captured graphs are not needed any longer
    (torch.compiler.cudagraph_mark_step_begin).
    """
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    return trees.MarkStepBox.mark_step_counter if trees is not None else 0


def _is_to_be_captured(key: tuple[Any, ...]) -> bool:
    """Whether the program wants graphs for these sizes: `triton.cudagraph_capture_sizes` names one number, or a tuple
    of numbers, for each combination that it wants; None: all.
    """
    sizes = inductor_config.triton.cudagraph_capture_sizes
    if sizes is None:
        return True
    numbers = tuple(value for value in key if isinstance(value, int))
    return not numbers or (numbers[0] if len(numbers) == 1 else numbers) in sizes


def _addresses(arguments: list[Any]) -> list[int | None]:
    return [value.data_ptr() if isinstance(value, torch.Tensor) else None for value in arguments]


def _is_misaligned(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu" and value.data_ptr() % _ALIGNMENT != 0


def _overlaps_itself(value: torch.Tensor) -> bool:
    """Other than by repetition along an axis (an expanded tensor), which a copy undoes."""
    return torch._debug_has_internal_overlap(without_repetitions(value)) != 0

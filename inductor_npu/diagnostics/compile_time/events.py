"""Follows the spans that `torch._dynamo.utils.dynamo_timed` times, and adds each to the record of its phase.

torch keeps the total time of each kind of span, including nested ones, and forgets the nesting. Its log of events for
Chrome traces receives both; this class is that log, and also listens.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import ChromiumEventLogger

from inductor_npu.diagnostics.compile_time import record
from inductor_npu.diagnostics.compile_time.phases import PHASE_OF, Phase
from inductor_npu.support.switches import is_on

PRINT_VARIABLE = "INDUCTOR_NPU_COMPILE_TIMES"


@dataclass
class _Running:
    """A span that has not ended: when it began, and how many nanoseconds were spent in spans inside it."""

    name: str
    phase: Phase
    clock: int
    processor: int
    clock_inside: int = 0
    processor_inside: int = 0


class EventLogger(ChromiumEventLogger):
    """torch's log of events, which adds each that ends to the record."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = threading.local()

    def log_event_start(
        self, event_name: str, time_ns: int, metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        running = self._running()
        super().log_event_start(event_name, time_ns, metadata, *args, **kwargs)
        phase = PHASE_OF.get(event_name, running[-1].phase if running else Phase.OTHER)
        running.append(_Running(event_name, phase, time.perf_counter_ns(), time.thread_time_ns()))

    def log_event_end(self, event_name: str, *args: Any, **kwargs: Any) -> None:
        running = self._running()
        super().log_event_end(event_name, *args, **kwargs)
        while any(span.name == event_name for span in running):
            span = running.pop()
            clock, processor = time.perf_counter_ns() - span.clock, time.thread_time_ns() - span.processor
            record.add(_graph(), span.phase, clock - span.clock_inside, processor - span.processor_inside)
            if running:
                running[-1].clock_inside += clock
                running[-1].processor_inside += processor
            if span.name == event_name:
                return  # those before it in this loop were given up

    def _running(self) -> list[_Running]:
        """This thread's spans, those left out that torch has given up: a compile that failed or starts again."""
        if not hasattr(self._threads, "running"):
            self._threads.running = []
        running: list[_Running] = self._threads.running
        del running[len(self.get_stack()) :]
        return running


def _graph() -> str:
    compile_id = torch._guards.CompileContext.current_compile_id()
    return record.OUTSIDE if compile_id is None else str(compile_id)


def logger() -> EventLogger:
    """A log that records, and prints the record when the process ends if INDUCTOR_NPU_COMPILE_TIMES=1 asks for it."""
    if is_on(PRINT_VARIABLE):
        atexit.register(_print)
    return EventLogger()


def _print() -> None:
    times = record.compile_times()
    if times.graphs:
        print(times, file=sys.stderr)

"""(c) Host time of one kernel launch with four arguments and little work: how long the launching thread is busy.

Time is the launching thread's processor time. Wall-clock time would include the moments in which other threads, such as
the stream's own, use its processor: on two cores that is up to three times as much, and varies from run to run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

LAUNCHES = 500
ROUNDS = 40


def measure() -> dict[str, float]:
    """Processor seconds per launch: by the launcher itself, from Inductor's generated code, and through Triton's
    `kernel[grid](...)`.
    """
    import triton

    x = torch.ones(64, device="npu")
    y, out = torch.ones_like(x), torch.empty_like(x)
    kernel = _user_kernel()
    compiled = kernel[(1,)](x, y, out, 64, BLOCK=64)
    stream = triton.runtime.driver.active.get_current_stream(0)
    launch, function, packed = compiled.run, compiled.function, compiled.packed_metadata
    return {
        "launcher": _seconds(lambda: launch(1, 1, 1, stream, function, packed, None, None, None, x, y, out, 64, 64)),
        "generated code": _seconds(_generated_launch()),
        "Triton's own launch syntax": _seconds(lambda: kernel[(1,)](x, y, out, 64, BLOCK=64)),
    }


def _user_kernel() -> Any:
    from benchmarks.add_kernel import add_kernel

    return add_kernel


def _generated_launch() -> Callable[[], Any]:
    """A launch as Inductor's code for `x + y` makes it: two inputs, one output, the number of elements."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    x = torch.ones(64, device="npu")
    out = torch.empty_like(x)
    torch._dynamo.reset()
    torch.compile(lambda x, y: x + y, dynamic=False)(x, x + 1)
    module = next(module for module in reversed(PyCodeCache.modules) if hasattr(module, "call"))
    kernel = next(value for value in vars(module).values() if isinstance(value, CachingAutotuner))
    stream = torch.npu.current_stream()
    raw_stream = getattr(stream, "npu_stream", stream.stream_id)
    return lambda: kernel.run(x, x, out, 64, stream=raw_stream)


def _seconds(launch: Callable[[], Any]) -> float:
    """Median over rounds; a round's launches fit the stream's queue, and the queue is empty before it."""
    times = []
    for _ in range(ROUNDS):
        torch.npu.synchronize()
        start = time.thread_time()
        for _ in range(LAUNCHES):
            launch()
        times.append((time.thread_time() - start) / LAUNCHES)
    return statistics.median(times)

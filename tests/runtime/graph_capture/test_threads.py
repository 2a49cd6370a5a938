"""Captured functions among threads: a thread that compiles one captures it, and what a thread reads stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.device.native_kernels import sleep
from tests.threads import run_threads

SIZES = (24, 32)


def function(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """One of several functions that share no code, and hence no compiled graph."""
    scope: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    exec(f"def scaled(x):\n    return (x * {number + 2}).softmax(-1)", scope)
    return scope["scaled"]


def npu(seed: int) -> torch.Tensor:
    return torch.randn(SIZES, generator=torch.Generator().manual_seed(seed)).npu()


@pytest.fixture
def slow_copy() -> Iterator[tuple[Callable[[torch.Tensor], torch.Tensor], threading.Event, threading.Event]]:
    """A copy by an operator of the library that reads late; what says that it runs, and what lets it read."""
    running, may_read = threading.Event(), threading.Event()

    def copy(x: torch.Tensor) -> torch.Tensor:
        running.set()
        assert may_read.wait(30)
        return x.clone()

    library = torch.library.Library("test_captures_and_threads", "DEF")
    library.define("slow_copy(Tensor x) -> Tensor")
    library.impl("slow_copy", copy, "CPU")
    yield torch.ops.test_captures_and_threads.slow_copy, running, may_read
    library._destroy()


def test_threads_capture_functions_of_their_own(counts):
    def work(index: int) -> None:
        scaled = function(index)
        compiled = torch.compile(scaled, mode="reduce-overhead")
        kept = []
        for seed in range(12):
            x = npu(seed)
            kept.append((compiled(x), scaled(x.cpu())))
            torch.npu.synchronize()
        for result, expected in kept:
            torch.testing.assert_close(result.cpu(), expected)

    run_threads(2, work)
    warmed_up, captures, replayed, skipped = counts()
    assert (warmed_up, warmed_up + replayed + skipped) == (2, 24)
    assert captures >= 2 and replayed > 0


def test_one_thread_of_several_captures_a_function(counts):
    scaled = function(0)
    compiled = torch.compile(scaled, mode="reduce-overhead")

    def work(index: int) -> None:
        for seed in range(20):
            x = npu(seed * 4 + index)
            torch.testing.assert_close(compiled(x).cpu(), scaled(x.cpu()))

    compiled(npu(0))
    run_threads(4, work)
    assert counts()[2] > 0


@pytest.mark.embedded
def test_a_result_does_not_change_while_another_thread_reads_it(counts, slow_copy):
    read_late, running, may_read = slow_copy
    scaled = function(1)
    compiled = torch.compile(scaled, mode="reduce-overhead")
    for seed in range(3):
        result = compiled(npu(seed))
    read = []
    thread = threading.Thread(target=lambda: read.append(read_late(result)))
    thread.start()
    assert running.wait(30)
    other = compiled(npu(3))
    torch.npu.synchronize()
    may_read.set()
    thread.join()
    torch.testing.assert_close(read[0].cpu(), scaled(npu(2).cpu()))
    torch.testing.assert_close(other.cpu(), scaled(npu(3).cpu()))
    compiled(npu(4))
    torch.testing.assert_close(result.cpu(), scaled(npu(2).cpu()))
    assert counts()[3] == 1


def test_a_result_moves_before_other_streams_read_it():
    scaled, other = function(2), torch.npu.Stream()
    compiled = torch.compile(scaled, mode="reduce-overhead")
    for seed in range(3):
        result = compiled(npu(seed))
    torch.npu.synchronize()
    sleep(50)
    compiled(npu(3))  # moves the result, behind the kernel that sleeps
    with torch.npu.stream(other):
        copy = result + 0
    other.synchronize()
    torch.testing.assert_close(copy.cpu(), scaled(npu(2).cpu()))

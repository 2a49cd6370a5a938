"""Threads that share a stream: memory that one has freed is another one's only where nothing queued uses it."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.device.native_kernels import launch, register, sleep
from tests.device.npu_process import run_on_npu

COUNT = 64  # elements of int64: a block of the allocator's
NUMBERS = torch.arange(COUNT) + 1000


@pytest.fixture
def operator() -> Iterator[Callable[[Callable[[], torch.Tensor]], Callable[[torch.Tensor], torch.Tensor]]]:
    """Makes an operator of the library whose result is that of a function."""
    library = torch.library.Library("test_threads", "DEF")

    def make(result: Callable[[], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        library.define("made(Tensor x) -> Tensor")
        library.impl("made", lambda x: result(), "CPU")
        return torch.ops.test_threads.made

    yield make
    library._destroy()


def queue_numbers(kept: torch.Tensor) -> None:
    """Queues kernels behind one that sleeps: NUMBERS go to `kept` by way of memory that is freed when it returns."""
    sleep(50)
    between = torch.empty(COUNT, dtype=torch.int64, device="npu")
    launch(register("iota"), "pl", between, 1000, grid=(COUNT, 1, 1))
    kept.copy_(between)


@pytest.mark.embedded
class TestOperators:
    """They run on the calling thread, not in their turn on the stream."""

    def test_a_result_is_not_in_memory_that_queued_work_uses(self, operator):
        running, queued = threading.Event(), threading.Event()

        def sevens() -> torch.Tensor:
            running.set()
            assert queued.wait(30)
            return torch.full((COUNT,), 7)

        made, results = operator(sevens), []
        x, kept = torch.ones(COUNT, device="npu"), torch.zeros(COUNT, dtype=torch.int64, device="npu")
        thread = threading.Thread(target=lambda: results.append(made(x)))
        thread.start()
        assert running.wait(30)
        queue_numbers(kept)
        queued.set()
        thread.join()
        assert torch.equal(kept.cpu(), NUMBERS)
        assert torch.equal(results[0].cpu(), torch.full((COUNT,), 7))

    def test_a_replay_s_are_not_in_memory_that_is_used_behind_it(self):
        x, kept = torch.ones(COUNT, device="npu"), torch.zeros(COUNT, dtype=torch.int64, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x.cumsum(0, dtype=torch.int64)
        sleep(50)
        between = torch.empty(COUNT, dtype=torch.int64, device="npu")
        launch(register("iota"), "pl", between, 1000, grid=(COUNT, 1, 1))
        graph.replay()
        kept.copy_(between)
        del between
        assert torch.equal(kept.cpu(), NUMBERS)
        assert torch.equal(y.cpu(), torch.arange(1, COUNT + 1))


class TestSegments:
    def test_are_not_given_back_while_queued_work_uses_them(self):
        """The memory of the second kernel is allocated and freed while another thread waits to give back what is
        cached.
        """
        program = """
            import threading, time, torch
            from tests.device.native_kernels import launch, register, sleep

            count = 2**21
            kept = torch.empty(count, dtype=torch.int64, device="npu")
            cached = torch.empty(1000, device="npu")
            del cached
            iota = register("iota")
            sleep(150)
            emptying = threading.Thread(target=torch.npu.empty_cache)
            emptying.start()
            time.sleep(0.05)
            sleep(300)
            between = torch.empty(count, dtype=torch.int64, device="npu")
            launch(iota, "pl", between, 5, grid=(1000, 1, 1))
            kept.copy_(between)
            del between
            emptying.join()
            print(torch.equal(kept[:1000].cpu(), torch.arange(1000) + 5))
        """
        assert run_on_npu(textwrap.dedent(program)).lines() == ["True"]

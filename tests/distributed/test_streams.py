"""A collective is work of the device: in order with the caller's stream, and nobody waits who did not ask to."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from inductor_npu.providers import CUDA, current_provider
from tests.distributed.ranks import Ranks, own_device

LATE = 0.5  # seconds by which one rank is late


def a_collective_waits_for_queued_work() -> None:
    @torch.compile
    def grow(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.sin(x) + 1.0
        return x

    x = torch.ones(300_000, device="npu")
    for _ in range(5):
        result = grow(x)
        dist.all_reduce(result)
        expected = grow(x) * dist.get_world_size()
        assert torch.equal(result, expected)


def the_caller_goes_on() -> None:
    """The rank that is on time is not held up by one that is late, until it asks for the result."""
    tensor = torch.ones(4, device="npu")
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(LATE)
    began = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    queued = time.monotonic() - began
    assert (tensor + 1.0).tolist() == [dist.get_world_size() + 1.0] * 4
    finished = time.monotonic() - began
    if dist.get_rank() == 0:
        assert queued < LATE / 2 < finished
    assert work.is_completed() and work.is_success()


def other_streams_do_not_wait() -> None:
    side = torch.npu.Stream()
    tensor, other = torch.ones(4, device="npu"), torch.ones(4, device="npu")
    assert (other + 1).tolist() == [2.0] * 4  # a GPU loads a kernel when it is first wanted, and waits for that
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(LATE)
    began = time.monotonic()
    with torch.npu.stream(side):
        dist.all_reduce(tensor)
    assert (other + 1).tolist() == [2.0] * 4
    if dist.get_rank() == 0:
        assert time.monotonic() - began < LATE / 2
    torch.npu.current_stream().wait_stream(side)
    assert tensor.tolist() == [float(dist.get_world_size())] * 4


def a_future_is_ordered_by_streams() -> None:
    tensor = torch.ones(1000, device="npu")
    future = dist.all_reduce(tensor, async_op=True).get_future()
    halved = future.then(lambda done: done.value()[0] / 2)
    assert halved.wait().tolist() == [dist.get_world_size() / 2] * 1000
    assert future.wait()[0].tolist() == [float(dist.get_world_size())] * 1000


def a_tensor_lives_until_its_collective_is_done() -> None:
    for _ in range(50):
        work = dist.all_reduce(torch.ones(100_000, device="npu"), async_op=True)
        torch.full((100_000,), 7.0, device="npu")  # would get its memory
    work.wait()
    assert work.result()[0].unique().tolist() == [float(dist.get_world_size())]


def a_time_out_of_one_wait() -> None:
    tensor = torch.ones(4, device="npu")
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(LATE)
    work = dist.all_reduce(tensor, async_op=True)
    if dist.get_rank() == 0:
        from datetime import timedelta

        with pytest.raises(dist.DistBackendError, match="on rank 0 was not done after 50 ms"):
            work.wait(timedelta(milliseconds=50))
    work.wait()
    assert tensor.tolist() == [float(dist.get_world_size())] * 4


def a_barrier_holds_the_caller() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(LATE)
    began = time.monotonic()
    dist.barrier(dist.group.WORLD, device_ids=[own_device().index])
    if dist.get_rank() == 0:
        assert time.monotonic() - began > LATE / 2


def queued_collectives_that_meet_keep_their_order() -> None:
    """gloo works on several that are queued, but not on those that need the results of one another."""
    size = dist.get_world_size()
    # Types that gloo reduces as they are, and in a wider one. NCCL has no int16.
    for dtype in (torch.float32, torch.int32 if current_provider() is CUDA else torch.int16):
        total, apart = torch.ones(3000, device="npu", dtype=dtype), torch.ones(3000, device="npu", dtype=dtype)
        parts = torch.zeros(size * 3000, device="npu", dtype=dtype)
        works = []
        for _ in range(3):
            works.append(dist.all_reduce(total, async_op=True))
            works.append(dist.all_gather_into_tensor(parts, total, async_op=True))
            works.append(dist.all_reduce(apart[1000:2000], async_op=True))
            works.append(dist.all_reduce(apart[:1000], async_op=True))
        for work in works:
            work.wait()
        assert total.unique().tolist() == parts.unique().tolist() == [size**3]
        assert apart[:2000].unique().tolist() == [size**3] and apart[2000:].unique().tolist() == [1]


def captured_in_a_graph() -> None:
    tensor, total = torch.ones(5000, device="npu"), torch.zeros(5000, device="npu")

    def step() -> None:
        tensor.mul_(2.0)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        total.add_(tensor)

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    tensor.fill_(1.0)
    total.zero_()
    for _ in range(3):
        graph.replay()
    torch.npu.synchronize()
    size = dist.get_world_size()
    assert tensor.unique().tolist() == [float((2 * size) ** 3)]
    assert total.unique().tolist() == [float(sum((2 * size) ** n for n in (1, 2, 3)))]


def seen_in_the_time_line() -> None:
    tensor = torch.ones(5000, device="npu")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        dist.all_reduce(tensor)
        torch.npu.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert ("nccl:all_reduce" if current_provider() is CUDA else "all_reduce") in names, names


@pytest.mark.parametrize(
    "function",
    [
        a_collective_waits_for_queued_work,
        the_caller_goes_on,
        other_streams_do_not_wait,
        a_future_is_ordered_by_streams,
        a_tensor_lives_until_its_collective_is_done,
        a_time_out_of_one_wait,
        a_barrier_holds_the_caller,
        queued_collectives_that_meet_keep_their_order,
        captured_in_a_graph,
        seen_in_the_time_line,
    ],
    ids=lambda function: function.__name__,
)
def test_streams(two_ranks: Ranks, function) -> None:  # type: ignore[no-untyped-def]
    two_ranks.run(function)

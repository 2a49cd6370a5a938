"""Random programs of kernels, collectives, waits and frees on several streams: exact, against all ranks simulated.

Every rank draws the same program, and computes beside it, on the CPU, what each rank's tensors hold. Values are small
whole numbers, so that sums are exact in float32. What is asked for on one stream and used on another is ordered by the
program as a user would: by `Work.wait()` and events.
"""

from __future__ import annotations

import random

import pytest
import torch
import torch.distributed as dist

from tests.distributed.ranks import Ranks

STREAMS = 3
TENSORS = 6
LIMIT = 97  # values are taken modulo this, a prime
LARGEST = 1 << 20  # sums of values up to here are exact, with what a kernel makes of them
SIZES = (1, 7, 256, 3000, 40_000)  # elements that a tensor has for each rank


class Program:
    """A program in progress on this rank, and in simulation on all ranks.

    A tensor belongs to a stream, on which everything that uses it is queued, or which waits for it.
    """

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.streams = [torch.npu.current_stream(), *(torch.npu.Stream() for _ in range(STREAMS - 1))]
        self.elements = self.choose.choice(SIZES) * self.size
        self.tensors: list[torch.Tensor] = []
        self.home: list[int] = []
        self.simulated: list[list[torch.Tensor]] = []
        self.pending: list[tuple[dist.Work, int, list[int]]] = []
        for index in range(TENSORS):
            self.tensors.append(torch.empty(0, device="npu"))
            self.home.append(0)
            self.simulated.append([])
            self.fill(index)

    def fill(self, index: int) -> None:
        """A new tensor; the one before goes, maybe while the device still needs it."""
        stream, first = self.choose.randrange(STREAMS), self.choose.randrange(LIMIT)
        every = [
            (torch.arange(self.elements) * (rank + 3) + first).remainder(LIMIT).float() for rank in range(self.size)
        ]
        with torch.npu.stream(self.streams[stream]):
            numbers = torch.arange(self.elements, device="npu") * (self.rank + 3) + first
            self.tensors[index] = numbers.remainder(LIMIT).float()
        self.home[index], self.simulated[index] = stream, every

    def settle(self, *indices: int) -> None:
        """What is pending with these tensors is waited for, by the stream that asked for it."""
        for each in list(self.pending):
            work, stream, used = each
            if not set(used).isdisjoint(indices):
                with torch.npu.stream(self.streams[stream]):
                    work.wait()
                self.pending.remove(each)

    def bring(self, index: int, stream: int) -> None:
        """The tensor is used by `stream` from here on."""
        if self.home[index] != stream:
            self.settle(index)
            self.streams[stream].wait_stream(self.streams[self.home[index]])
            self.tensors[index].record_stream(self.streams[stream])
            self.home[index] = stream

    def two(self) -> tuple[int, int, int]:
        one, other = self.choose.sample(range(TENSORS), 2)
        stream = self.choose.choice([self.home[one], self.home[other]])
        self.bring(one, stream)
        self.bring(other, stream)
        return one, other, stream

    def kernel(self) -> None:
        to, other, stream = self.two()
        self.settle(to, other)
        factor = self.choose.randrange(2, 5)
        with torch.npu.stream(self.streams[stream]):
            if self.choose.random() < 0.3:  # takes a while: what is queued behind it begins late
                busy = torch.zeros(300, 300, device="npu")
                for _ in range(3):
                    busy = busy @ busy
            self.tensors[to].mul_(factor).add_(self.tensors[other]).remainder_(LIMIT)
        for mine, others in zip(self.simulated[to], self.simulated[other], strict=True):
            mine.mul_(factor).add_(others).remainder_(LIMIT)

    def collective(self) -> None:
        kind = self.choose.choice(["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"])
        to, other, stream = self.two()
        rows = self.elements // self.size
        before, given = self.simulated[to], self.simulated[other]
        # Those that meet may be queued behind each other: the group keeps their order.
        with torch.npu.stream(self.streams[stream]):
            whole, argument = self.tensors[to], self.tensors[other]
            if kind == "all_reduce":
                work = dist.all_reduce(whole, async_op=True)
                total = torch.stack(before).sum(0)
                after = [total.clone() for _ in range(self.size)]
            elif kind == "broadcast":
                root = self.choose.randrange(self.size)
                work = dist.broadcast(whole, root, async_op=True)
                after = [before[root].clone() for _ in range(self.size)]
            elif kind == "all_gather":
                work = dist.all_gather_into_tensor(whole, argument[:rows], async_op=True)
                after = [torch.cat([each[:rows] for each in given]) for _ in range(self.size)]
            elif kind == "reduce_scatter":
                work = dist.reduce_scatter_tensor(whole[:rows], argument, async_op=True)
                total = torch.stack(given).sum(0)
                parts = total.chunk(self.size)
                after = [torch.cat([parts[rank], before[rank][rows:]]) for rank in range(self.size)]
            else:
                work = dist.all_to_all_single(whole, argument, async_op=True)
                chunks = [each.chunk(self.size) for each in given]
                after = [torch.cat([each[rank] for each in chunks]) for rank in range(self.size)]
        self.simulated[to] = after
        self.pending.append((work, stream, [to, other]))
        if max(each.max().item() for each in after) > LARGEST:
            self.settle(to)
            with torch.npu.stream(self.streams[stream]):
                self.tensors[to].remainder_(LIMIT)
            for each in after:
                each.remainder_(LIMIT)

    def step(self) -> None:
        action = self.choose.choices(["kernel", "collective", "fill", "settle"], [4, 8, 1, 1])[0]
        if action == "kernel":
            self.kernel()
        elif action == "collective":
            self.collective()
        elif action == "fill":
            index = self.choose.randrange(TENSORS)
            self.settle(index)
            self.fill(index)
        else:
            self.settle(self.choose.randrange(TENSORS))

    def check(self, name: str) -> None:
        self.settle(*range(TENSORS))
        torch.npu.synchronize()
        for index, (tensor, every) in enumerate(zip(self.tensors, self.simulated, strict=True)):
            assert torch.equal(tensor.cpu(), every[self.rank]), f"{name}: tensor {index} of rank {self.rank}"


def random_programs(first: int, count: int, steps: int) -> None:
    for seed in range(first, first + count):
        program = Program(seed)
        for _ in range(steps):
            program.step()
        program.check(f"program {seed}")


def test_a_few(two_ranks: Ranks) -> None:
    two_ranks.run(random_programs, 0, 10, 40)


@pytest.mark.slow
def test_many(ranks: Ranks) -> None:
    ranks.run(random_programs, 1000, 200, 60, seconds=600)

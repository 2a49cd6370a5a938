"""torch_npu's HCCL between ranks that are processes of this host: eager, compiled, and when one of them dies."""

from __future__ import annotations

import signal
import time

import pytest

from tests.ascend_seat.ranks import Rank, run_ranks, started
from tests.processes import Finished

COLLECTIVES = """
def of(*shape, seed=0, dtype=torch.float32, whose=None):
    '''A tensor that each rank knows of each rank.'''
    numbers = torch.Generator().manual_seed(1000 * seed + (rank if whose is None else whose))
    return torch.randint(-8, 9, shape, generator=numbers).to(dtype)

def of_all(*shape, **settings):
    return [of(*shape, whose=whose, **settings) for whose in range(ranks)]

def same(got, wanted, what):
    assert torch.equal(got.cpu(), wanted), (rank, what, got.cpu(), wanted)

REDUCTIONS = {
    dist.ReduceOp.SUM: lambda all: torch.stack(all).sum(0),
    dist.ReduceOp.MAX: lambda all: torch.stack(all).amax(0),
    dist.ReduceOp.MIN: lambda all: torch.stack(all).amin(0),
    dist.ReduceOp.PRODUCT: lambda all: torch.stack(all).prod(0),
    dist.ReduceOp.AVG: lambda all: torch.stack(all).sum(0) / ranks,
}
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64)
for dtype in TYPES:
    for op, wanted in REDUCTIONS.items():
        if op == dist.ReduceOp.AVG and not dtype.is_floating_point:
            continue
        x = of(7, 33, dtype=dtype).npu()
        dist.all_reduce(x, op)
        same(x, wanted(of_all(7, 33, dtype=dtype)).to(dtype), ("all_reduce", op, dtype))
for dtype in (torch.uint8, torch.bool):
    x = of(50, dtype=dtype).npu()
    dist.all_reduce(x, dist.ReduceOp.MAX)
    same(x, torch.stack(of_all(50, dtype=dtype)).amax(0), ("all_reduce", dtype))

# Through the stream of the collective, and back: nothing waits but for the work.
x = of(300_000).npu()
work = dist.all_reduce(x, async_op=True)
y = of(300_000, seed=1).npu() * 2
work.wait()
same(x + y, sum(of_all(300_000)) + of(300_000, seed=1) * 2, "async")

for dtype in (*TYPES, torch.float64, torch.uint8, torch.bool):
    x, result = of(5, 3, dtype=dtype), torch.empty(5 * ranks, 3, dtype=dtype).npu()
    dist.all_gather_into_tensor(result, x.npu())
    same(result, torch.cat(of_all(5, 3, dtype=dtype)), ("all_gather_into_tensor", dtype))
    x = x.npu()
    dist.broadcast(x, ranks - 1)
    same(x, of(5, 3, dtype=dtype, whose=ranks - 1), ("broadcast", dtype))
parts = [torch.empty(5, 3).npu() for _ in range(ranks)]
dist.all_gather(parts, of(5, 3).npu())
for part, wanted in zip(parts, of_all(5, 3)):
    same(part, wanted, "all_gather")
parts = [torch.empty(whose + 1, 3).npu() for whose in range(ranks)]
dist.all_gather(parts, of(rank + 1, 3).npu())
for whose, part in enumerate(parts):
    same(part, of(whose + 1, 3, whose=whose), "all_gather of parts that differ")

result = torch.empty(4, 3).npu()
dist.reduce_scatter_tensor(result, of(4 * ranks, 3).npu())
same(result, sum(of_all(4 * ranks, 3)).chunk(ranks)[rank], "reduce_scatter_tensor")
dist.reduce_scatter(result, list(of(4 * ranks, 3).npu().chunk(ranks)), dist.ReduceOp.MAX)
same(result, torch.stack(of_all(4 * ranks, 3)).amax(0).chunk(ranks)[rank], "reduce_scatter")
x = of(6).npu()
dist.reduce(x, 0)
same(x if rank == 0 else torch.zeros(0), sum(of_all(6)) if rank == 0 else torch.zeros(0), "reduce")
result = torch.empty(2, 3).npu()
dist.scatter(result, [each.npu() for each in of_all(2, 3)] if rank == 1 else None, src=1)
same(result, of(2, 3), "scatter")

result = torch.empty(4 * ranks).npu()
dist.all_to_all_single(result, of(4 * ranks).npu())
same(result, torch.cat([each.chunk(ranks)[rank] for each in of_all(4 * ranks)]), "all_to_all_single")
sent = [whose + 1 for whose in range(ranks)]
result = torch.empty((rank + 1) * ranks).npu()
dist.all_to_all_single(result, of(sum(sent)).npu(), [rank + 1] * ranks, sent)
same(result, torch.cat([each.split(sent)[rank] for each in of_all(sum(sent))]), "all_to_all_single, parts that differ")

before, after = (rank - 1) % ranks, (rank + 1) % ranks
result = torch.empty(100_000).npu()
if rank % 2:
    dist.recv(result, before)
    dist.send(of(100_000).npu(), after)
else:
    dist.send(of(100_000).npu(), after)
    dist.recv(result, before)
same(result, of(100_000, whose=before), "send and recv")
first, second = torch.empty(1000).npu(), torch.empty(20, dtype=torch.int64).npu()
works = dist.batch_isend_irecv([
    dist.P2POp(dist.isend, of(1000).npu(), after),
    dist.P2POp(dist.isend, of(20, dtype=torch.int64).npu(), after),
    dist.P2POp(dist.irecv, first, before),
    dist.P2POp(dist.irecv, second, before),
])
for work in works:
    work.wait()
same(first, of(1000, whose=before), "batch_isend_irecv")
same(second, of(20, dtype=torch.int64, whose=before), "batch_isend_irecv")

objects = [None] * ranks
dist.all_gather_object(objects, {"rank": rank, "text": "x" * (rank + 1)})
assert objects == [{"rank": whose, "text": "x" * (whose + 1)} for whose in range(ranks)]
dist.barrier()

last, all_but_last = dist.new_group([ranks - 1]), dist.new_group(list(range(ranks - 1)))
swapped = dist.new_group([ranks - 1, 0])
if rank < ranks - 1:
    x = torch.ones(3).npu()
    dist.all_reduce(x, group=all_but_last)
    same(x, torch.full((3,), ranks - 1.0), "a group without the last")
if rank in (0, ranks - 1):
    result = torch.empty(2).npu()
    dist.all_gather_into_tensor(result, torch.full((1,), float(rank)).npu(), group=swapped)
    same(result, torch.tensor([0.0, ranks - 1.0]), "a group of the first and the last")
"""

HAND_MADE = """
def of(whose):
    return torch.arange(5.0) + 10 * whose

x = of(rank).npu()
dist.all_reduce(x)  # of the communicator that the others are parts of
for members in ([0, ranks - 1], [ranks - 1, 0], list(range(ranks))):
    group = dist.new_group(members)
    if rank in members:
        x = of(rank).npu()
        dist.all_reduce(x, group=group)
        assert torch.equal(x.cpu(), sum(map(of, members)))
        dist.barrier(group)

torch.npu.use_compatible_impl(True)  # lists are sends and receives between HcclGroupStart and HcclGroupEnd
parts = [torch.empty(5).npu() for _ in range(ranks)]
dist.gather(of(rank).npu(), parts if rank == 0 else None, 0)
if rank == 0:
    assert torch.equal(torch.stack(parts).cpu(), torch.stack([of(whose) for whose in range(ranks)]))
result = torch.empty(5).npu()
dist.scatter(result, [of(whose).npu() for whose in range(ranks)] if rank == 0 else None, 0)
assert torch.equal(result.cpu(), of(rank))
parts = [torch.empty(rank + 1).npu() for _ in range(ranks)]
dist.all_to_all(parts, [torch.full((whose + 1,), float(rank)).npu() for whose in range(ranks)])
for whose, part in enumerate(parts):
    assert torch.equal(part.cpu(), torch.full((rank + 1,), float(whose)))
"""

# All that follows is also right for four ranks, which takes a minute or two on two cores.
of_two_and_four = pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.four_ranks)])


@of_two_and_four
def test_collectives(ranks: int) -> None:
    run_ranks(COLLECTIVES, ranks)


@of_two_and_four
def test_parts_of_communicators_and_grouped_calls(ranks: int) -> None:
    run_ranks(HAND_MADE, ranks, ROOTINFO_SUBCOMM_ENABLE="1")


# What both ranks train, and one process with all of the batch: the model, the batches, the steps on the CPU.
TRAINING = """
import copy
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(20, 512), nn.LayerNorm(512)
        self.second, self.last = nn.Linear(512, 512), nn.Linear(512, 5)

    def forward(self, x):
        return self.last(self.second(self.norm(F.gelu(self.first(x)))).relu())

torch.manual_seed(0)
reference = Network()
batches = [(torch.randn(8 * ranks, 20), torch.randint(0, 5, (8 * ranks,))) for _ in range(3)]

def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

def steps(model, optimizer, batches):
    losses = []
    for x, labels in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses

here = copy.deepcopy(reference)
wanted_losses = steps(here, optimizer_of(here), batches)
mine = [(x.chunk(ranks)[rank].npu(), labels.chunk(ranks)[rank].npu()) for x, labels in batches]

def check(losses, parameters):
    for loss, wanted in zip(losses, wanted_losses, strict=True):
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        torch.testing.assert_close(loss.cpu(), wanted, rtol=1e-5, atol=1e-6)
    for got, wanted in zip(parameters, here.parameters(), strict=True):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
"""

DDP = """
from torch.nn.parallel import DistributedDataParallel

there = copy.deepcopy(reference).npu()
if rank:
    with torch.no_grad():
        for parameter in there.parameters():
            parameter.fill_(rank)  # rank 0's are what counts
parallel = DistributedDataParallel(there, device_ids=[rank], bucket_cap_mb=1)
losses = steps(torch.compile(parallel), optimizer_of(there), mine)
check(losses, there.parameters())
# The breaks are at what DDP does beside the model, on any device: its bookkeeping, and its logger.
ITS_OWN = ("_inside_ddp_forward", "set_runtime_stats_and_log")
breaks = [reason for reason in counters["graph_break"] if not any(name in reason for name in ITS_OWN)]
assert not breaks, breaks
buckets = parallel._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(",")
print(counters["stats"]["unique_graphs"] > 0, len(buckets), backend())
"""


@of_two_and_four
def test_distributed_data_parallel(ranks: int) -> None:
    """A compiled model, several buckets; losses and parameters are those of one process with the whole batch."""
    assert run_ranks(TRAINING + DDP, ranks) == [["True 2 inductor_npu"]] * ranks


FSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("npu", (ranks,))
for compiles in (False, True):
    there = copy.deepcopy(reference).npu()
    for part in (there.first, there.second, there):
        fully_shard(part, mesh=mesh)
    assert there.first.weight.to_local().shape[0] == 512 // ranks
    losses = steps(torch.compile(there) if compiles else there, optimizer_of(there), mine)
    check(losses, [parameter.full_tensor() for parameter in there.parameters()])
print(counters["stats"]["unique_graphs"] > 0, backend())
"""


@of_two_and_four
def test_fully_sharded_data_parallel(ranks: int) -> None:
    """FSDP2, eager and compiled, against the same process."""
    assert run_ranks(TRAINING + FSDP, ranks) == [["True inductor_npu"]] * ranks


FUNCTIONAL = """
import torch.distributed._functional_collectives as functional
from torch._inductor.utils import run_and_get_code
from torch.testing import assert_close

group = dist.group.WORLD

def all_reduced(x):
    return functional.all_reduce(x.sin() * 2, "sum", group).cos() + 1

def gathered(x):
    return functional.all_gather_tensor(x.sin(), 0, group).square().sum(0)

def scattered(x):
    return functional.reduce_scatter_tensor(x.sin(), "sum", 0, group).cos()

def in_place(x):
    y = x.sin() * 2
    dist.all_reduce(y)
    return y.cos() + 1

def passed_round(x):
    return functional.all_to_all_single(x.sin(), None, None, group).cos()

torch.manual_seed(0)
inputs = [torch.randn(4 * ranks, 33) for _ in range(ranks)]
sines = [x.sin() for x in inputs]
wanted = {
    all_reduced: (sum(sines) * 2).cos() + 1,
    in_place: (sum(sines) * 2).cos() + 1,
    gathered: torch.cat(sines).square().sum(0),
    scattered: sum(sines).chunk(ranks)[rank].cos(),
    passed_round: torch.cat([each.chunk(ranks)[rank] for each in sines]).cos(),
}
for function, right in wanted.items():
    compiled = torch.compile(function, fullgraph=True)
    got, (code,) = run_and_get_code(compiled, inputs[rank].npu())
    assert_close(got.cpu(), right, rtol=1e-5, atol=1e-5)
    assert code.count("torch.ops._c10d_functional.wait_tensor.default(") == 1, code
    assert code.count(".run(") == 2, code
print(backend())
"""


@of_two_and_four
def test_functional_collectives_are_part_of_the_graph(ranks: int) -> None:
    """One graph without a break: a kernel, the collective, its wait, a kernel."""
    assert run_ranks(FUNCTIONAL, ranks) == [["inductor_npu"]] * ranks


# Rank 1 stops before the second collective, in which rank 0 is. A process that it has forked, as a loader of data does,
# outlives it and has none of its connections.
ONE_STOPS = """
import time
x = torch.ones(1000).npu()
dist.all_reduce(x)
assert x.sum().item() == 1000 * ranks
print("ready", flush=True)
if rank == 1:
    os.fork()
    time.sleep(600)
dist.all_reduce(x)
"""
READS = "print(x.sum().item())"
SLEEPS = "time.sleep(600)"


def end_of(rank: Rank, timeout: float) -> Finished:
    """What `rank` leaves behind: an error, within `timeout` seconds, and no process."""
    rank.process.wait(timeout)
    ended = rank.output()
    assert ended.returncode != 0 and "ended" not in ended.stdout, ended
    deadline = time.monotonic() + 10
    while rank.left_behind() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not rank.left_behind()
    return ended


@pytest.mark.parametrize("then", [READS, SLEEPS], ids=["reads", "sleeps"])
def test_a_rank_that_is_killed(then: str) -> None:
    """Whoever reads the result gets an error; whoever does not is ended by torch_npu's watchdog."""
    with started(ONE_STOPS + then) as (first, second):
        for rank in (first, second):
            rank.wait_for("ready", timeout=120)
        second.process.kill()
        said = end_of(first, timeout=30).stderr
    assert "rank 0 of 2" in said and "all_reduce of 1000 float32, sum: rank 1 has ended" in said, said


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("HCCL_EXEC_TIMEOUT", "all_reduce of 1000 float32, sum: rank 1 did not come in time within 3 s"),
        ("HCCL_EVENT_TIMEOUT", "a stream waited 3 s for an event of another one"),
    ],
)
def test_a_rank_that_hangs(limit: str, message: str) -> None:
    """The limit of the collective, or of the stream that waits for it. The process ends when both have passed."""
    with started(ONE_STOPS + READS, **{"HCCL_EXEC_TIMEOUT": "8", limit: "3"}) as (first, second):
        for rank in (first, second):
            rank.wait_for("ready", timeout=120)
        second.process.send_signal(signal.SIGSTOP)
        said = end_of(first, timeout=30).stderr
    assert message in said, said


def test_a_rank_that_does_not_come() -> None:
    comes_late = "import time\nif rank == 1:\n    time.sleep(600)\ndist.all_reduce(torch.ones(3).npu())"
    with started(comes_late, HCCL_CONNECT_TIMEOUT="3") as (first, _):
        said = end_of(first, timeout=120).stderr
    assert "rank 1 of 2 did not come within 3 s (HCCL_CONNECT_TIMEOUT)" in said, said


def test_ranks_that_disagree() -> None:
    """Both end, and say what the other is in."""
    with started("x = torch.ones(3 + rank).npu()\ndist.all_reduce(x)\nx.cpu()") as ranks:
        first, second = (end_of(rank, timeout=120).stderr for rank in ranks)
    one, other = "all_reduce of 3 float32, sum", "all_reduce of 4 float32, sum"
    both = (
        f"{one}: rank 1 is in {other}, which is another call",
        f"{other}: rank 0 is in {one}, which is another call",
    )
    assert any(sentence in first + second for sentence in both), first + second

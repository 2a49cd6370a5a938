"""torch_npu's HCCL between ranks that are processes of this host: eager, compiled, and when one of them dies."""

from __future__ import annotations

from tests.ascend_seat.ranks import run_ranks

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
same(result, torch.cat([each.split(sent)[rank] for each in of_all(sum(sent))]), "all_to_all_single of parts that differ")

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


def test_collectives() -> None:
    run_ranks(COLLECTIVES)

"""Every collective of torch.distributed on tensors of npu, against what the same call means."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from inductor_npu.providers import CUDA, current_provider
from tests.distributed.ranks import Ranks, own_device

splits_groups_of_any_device = pytest.mark.skipif(
    torch.__version__ < "2.13", reason="split_group of an earlier torch asks for the backend of cuda"
)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
COMPLEX: tuple[torch.dtype, ...] = ()
BITWISE: tuple[str, ...] = ()
IS_NCCL = current_provider() is CUDA  # which has no others
if not IS_NCCL:
    INTEGERS += (torch.int16, torch.uint16, torch.uint32, torch.uint64)
    COMPLEX = (torch.complex64, torch.complex128)
    BITWISE = ("BAND", "BOR", "BXOR")
EVERY_TYPE = (torch.bool, *FLOATS, *INTEGERS, *COMPLEX)
SIZES = ((), (1,), (5, 3), (0,), (70_001,))

COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add,
    "PRODUCT": torch.mul,
    "MAX": torch.maximum,
    "MIN": torch.minimum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
OPERATORS = ("SUM", "PRODUCT", "MAX", "MIN", *BITWISE, "AVG")


def given(dtype: torch.dtype, sizes: tuple[int, ...], rank: int) -> torch.Tensor:
    """What a rank brings: small numbers, so that sums and products are exact in every type."""
    count = max(1, torch.Size(sizes).numel())
    numbers = (torch.arange(count) * (rank + 1) + rank) % 3
    if dtype == torch.bool:
        return (numbers > 0)[: torch.Size(sizes).numel()].reshape(sizes)
    if dtype.is_complex:
        return (
            torch.complex(numbers.double(), numbers.double() - 1).to(dtype)[: torch.Size(sizes).numel()].reshape(sizes)
        )
    return numbers.to(dtype)[: torch.Size(sizes).numel()].reshape(sizes)


def reduced(operator: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """What a reduction of `tensors` is, in their own type."""
    dtype = tensors[0].dtype
    if dtype == torch.bool:
        operator = {"SUM": "BOR", "MAX": "BOR", "PRODUCT": "BAND", "MIN": "BAND"}.get(operator, operator)
        wide = tensors
    else:
        wide = [tensor.to(torch.complex128 if dtype.is_complex else _wide(dtype)) for tensor in tensors]
    result = wide[0]
    for tensor in wide[1:]:
        result = COMBINE["SUM" if operator == "AVG" else operator](result, tensor)
    if operator == "AVG":
        exact = dtype.is_floating_point or dtype.is_complex
        result = result / len(tensors) if exact else result.div(len(tensors), rounding_mode="trunc")
    return result.to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else torch.int64


def means_something(operator: str, dtype: torch.dtype) -> bool:
    if operator in ("BAND", "BOR", "BXOR"):
        return dtype == torch.bool or dtype in INTEGERS
    if dtype.is_complex:
        return operator in ("SUM", "AVG")
    return operator != "AVG" or dtype != torch.bool


def check(actual: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    assert actual.device.type == "npu", what
    assert actual.dtype == expected.dtype, what
    assert torch.equal(_comparable(actual.cpu()), _comparable(expected)), (what, actual, expected)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype == torch.float8_e4m3fn else tensor


def every_case() -> list[tuple[torch.dtype, tuple[int, ...]]]:
    return [(dtype, sizes) for dtype in EVERY_TYPE for sizes in (SIZES if dtype == torch.float32 else SIZES[2:3])]


def all_reduce_every_operator_and_type() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for operator in OPERATORS:
        for dtype, sizes in every_case():
            if not means_something(operator, dtype):
                continue
            tensor = given(dtype, sizes, rank).npu()
            dist.all_reduce(tensor, getattr(dist.ReduceOp, operator))
            check(tensor, reduced(operator, [given(dtype, sizes, r) for r in range(size)]), (operator, dtype, sizes))


def reduce_every_operator_and_type() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for operator in OPERATORS:
        for dtype, sizes in every_case():
            if not means_something(operator, dtype):
                continue
            root = size - 1
            own = given(dtype, sizes, rank)
            tensor = own.npu()
            dist.reduce(tensor, root, getattr(dist.ReduceOp, operator))
            expected = reduced(operator, [given(dtype, sizes, r) for r in range(size)]) if rank == root else own
            check(tensor, expected, (operator, dtype, sizes))


def reduce_scatter_every_operator_and_type() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for operator in OPERATORS:
        for dtype in EVERY_TYPE:
            if not means_something(operator, dtype):
                continue
            op = getattr(dist.ReduceOp, operator)
            whole = [given(dtype, (3 * size, 2), r) for r in range(size)]
            part = torch.empty(3, 2, dtype=dtype, device="npu")
            source = whole[rank].npu()
            dist.reduce_scatter_tensor(part, source, op)
            expected = reduced(operator, whole)[3 * rank : 3 * rank + 3]
            check(part, expected, ("reduce_scatter_tensor", operator, dtype))
            check(source, whole[rank], ("its argument stays", operator, dtype))
            # Lists may have parts of different sizes.
            parts = [given(dtype, (r + 1, 2), rank).npu() for r in range(size)]
            own = torch.empty(rank + 1, 2, dtype=dtype, device="npu")
            dist.reduce_scatter(own, parts, op)
            expected = reduced(operator, [given(dtype, (rank + 1, 2), r) for r in range(size)])
            check(own, expected, ("reduce_scatter", operator, dtype))
            for r, tensor in enumerate(parts):
                check(tensor, given(dtype, (r + 1, 2), rank), ("its arguments stay", operator, dtype))


def movement_of_every_type() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    for dtype, sizes in every_case():
        every = [given(dtype, sizes, r) for r in range(size)]
        own = every[rank].npu()

        tensor = own.clone()
        dist.broadcast(tensor, last)
        check(tensor, every[last], ("broadcast", dtype, sizes))

        parts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(parts, own)
        for r in range(size):
            check(parts[r], every[r], ("all_gather", dtype, sizes))

        gathered = [torch.empty_like(own) for _ in range(size)] if rank == last else None
        dist.gather(own, gathered, last)
        for r in range(size if rank == last else 0):
            check(gathered[r], every[r], ("gather", dtype, sizes))

        dist.scatter(tensor, [part.npu() for part in every] if rank == last else None, last)
        check(tensor, every[rank], ("scatter", dtype, sizes))

        received = [torch.empty_like(own) for _ in range(size)]
        dist.all_to_all(received, [own.clone() for _ in range(size)])
        for r in range(size):
            check(received[r], every[r], ("all_to_all", dtype, sizes))

        if sizes:
            flat = torch.empty(size * sizes[0], *sizes[1:], dtype=dtype, device="npu")
            dist.all_gather_into_tensor(flat, own)
            check(
                flat,
                torch.cat([_comparable(part) for part in every]).to(dtype),
                ("all_gather_into_tensor", dtype, sizes),
            )

        stacked = torch.empty(size, *sizes, dtype=dtype, device="npu")
        dist.all_gather_into_tensor(stacked, own)
        for r in range(size):
            check(stacked[r], every[r], ("all_gather_into_tensor, stacked", dtype, sizes))

        # Together, since a send of NCCL's holds what comes after it until it is received.
        passed = torch.empty_like(own)
        send = dist.P2POp(dist.isend, own, (rank + 1) % size)
        receive = dist.P2POp(dist.irecv, passed, (rank - 1) % size)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        check(passed, every[rank - 1], ("send and recv", dtype, sizes))


def uneven_parts() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = [r + 1 for r in range(size)]
    parts = [torch.empty(n, 2, device="npu") for n in rows]
    dist.all_gather(parts, torch.full((rows[rank], 2), float(rank), device="npu"))
    for r, part in enumerate(parts):
        check(part, torch.full((rows[r], 2), float(r)), "all_gather of different sizes")

    # Rank r sends r + 1 rows to each even rank and none to the others.
    sends = [(rank + 1) * (to % 2 == 0) for to in range(size)]
    receives = [(r + 1) * (rank % 2 == 0) for r in range(size)]
    dtype = torch.int32 if IS_NCCL else torch.int16
    result = torch.empty(sum(receives), 3, dtype=dtype, device="npu")
    dist.all_to_all_single(result, torch.full((sum(sends), 3), rank, dtype=dtype, device="npu"), receives, sends)
    expected = [torch.full((n, 3), r, dtype=dtype) for r, n in enumerate(receives)]
    check(result, torch.cat(expected), "all_to_all_single with sizes")

    even = torch.arange(2 * size, device="npu") + 100 * rank
    result = torch.empty_like(even)
    dist.all_to_all_single(result, even)
    expected = torch.cat([torch.arange(2 * rank, 2 * rank + 2) + 100 * r for r in range(size)])
    check(result, expected, "all_to_all_single")


def coalesced_blocks() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    device = own_device()
    tensors = [torch.full((n,), float(rank + n), device="npu") for n in (1, 7, 0, 3)]
    with dist._coalescing_manager(device=device, async_ops=True) as block:
        for tensor in tensors:
            dist.all_reduce(tensor)
    block.wait()
    for tensor, n in zip(tensors, (1, 7, 0, 3), strict=True):
        check(tensor, torch.full((n,), float(sum(r + n for r in range(size)))), "coalesced all_reduce")

    parts = [torch.full((2,), float(10 * i + rank), device="npu") for i in range(3)]
    wholes = [torch.empty(2 * size, device="npu") for _ in range(3)]
    with dist._coalescing_manager(device=device):
        for whole, part in zip(wholes, parts, strict=True):
            dist.all_gather_into_tensor(whole, part)
    for i, whole in enumerate(wholes):
        check(whole, torch.tensor([float(10 * i + r) for r in range(size) for _ in range(2)]), "coalesced all_gather")
    with dist._coalescing_manager(device=device):
        for whole, part in zip(wholes, parts, strict=True):
            dist.reduce_scatter_tensor(part, whole)
    for i, part in enumerate(parts):
        check(part, torch.full((2,), size * float(10 * i + rank)), "coalesced reduce_scatter")

    out, back = torch.full((4,), float(rank), device="npu"), torch.empty(4, device="npu")
    operations = [
        dist.P2POp(dist.isend, out, (rank + 1) % size),
        dist.P2POp(dist.irecv, back, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    check(back, torch.full((4,), float((rank - 1) % size)), "batch_isend_irecv")


def messages_out_of_order() -> None:
    """Tags tell messages apart, whatever the order in which they are received; as with gloo on the CPU."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        first, second = torch.tensor([1.0], device="npu"), torch.tensor([2.0], device="npu")
        works = [dist.isend(first, 1, tag=1), dist.isend(second, 1, tag=2)]
    if rank == 1:
        got = torch.empty(2, device="npu")
        dist.recv(got[1:], 0, tag=2)
        dist.recv(got[:1], 0, tag=1)
        check(got, torch.tensor([1.0, 2.0]), "two tags")
        works = []
    if rank > 1:
        works = []
    for work in works:
        work.wait()
    # From whichever rank it comes.
    if rank == size - 1:
        seen = torch.empty(1, device="npu")
        sources = {dist.recv(seen) for _ in range(size - 1)}
        assert sources == set(range(size - 1))
    else:
        dist.send(torch.tensor([float(rank)], device="npu"), size - 1)


def layouts() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    image = torch.full((2, 3, 4, 5), float(rank), device="npu").to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    check(image, torch.full((2, 3, 4, 5), float(sum(range(size)))), "channels last")
    refused = r"all_reduce on npu: expected tensors without gaps, got sizes \[3, 2\].*contiguous"
    with pytest.raises(ValueError, match="must be contiguous" if IS_NCCL else refused):
        dist.all_reduce(torch.ones(3, 4, device="npu")[:, ::2])
    view = torch.zeros(6, device="npu")
    dist.all_reduce(view[2:4].add_(1.0))
    check(view, torch.tensor([0.0, 0, size, size, 0, 0]), "a part of a tensor")
    if IS_NCCL:
        return  # it has no sums of sparse tensors
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (size,)).npu()
    dist.all_reduce(sparse)
    assert sparse.is_sparse and sparse.device.type == "npu"
    assert sparse.cpu().to_dense().tolist() == [2.0] * size


def objects_and_groups() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    npu_only = dist.new_group(backend="hccl")
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank}, group=npu_only)
    assert objects == [{"rank": r} for r in range(size)]
    boxed = [f"from {rank}"]
    dist.broadcast_object_list(boxed, src=size - 1, group=npu_only, device=own_device())
    assert boxed == [f"from {size - 1}"]
    ends = dist.new_group([0, size - 1], backend="hccl")
    if rank in (0, size - 1):
        tensor = torch.tensor([float(rank + 1)], device="npu")
        dist.all_reduce(tensor, group=ends)
        check(tensor, torch.tensor([float(1 + size)]), "a group of some ranks")
    dist.barrier(npu_only)
    dist.destroy_process_group(npu_only)


def groups_that_split() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.new_group([0], backend="hccl")  # so that ranks are in different numbers of groups, which PyTorch names one by
    bound = dist.new_group(backend="hccl", device_id=own_device())
    dist.group.WORLD.bound_device_id = own_device()  # split_group asks for it
    half = dist.split_group(bound, split_ranks=[list(range(size // 2)), list(range(size // 2, size))])
    tensor = torch.tensor([float(rank + 1)], device="npu")
    dist.all_reduce(tensor, group=half)
    members = range(size // 2) if rank < size // 2 else range(size // 2, size)
    check(tensor, torch.tensor([float(sum(r + 1 for r in members))]), "a group that was split off")


def tensors_of_the_wrong_device() -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"npu|device"):
        dist.all_gather([torch.empty(2) for _ in range(dist.get_world_size())], torch.ones(2, device="npu"))
    with pytest.raises(ValueError, match=r"expected tensors of one dtype, got Float and Int"):
        dist.all_gather_into_tensor(
            torch.empty(2 * dist.get_world_size(), device="npu"), torch.ones(2, dtype=torch.int32, device="npu")
        )
    with pytest.raises(ValueError, match=r"expected \d parts of 2 elements in the larger tensor, got 3"):
        dist.all_gather_into_tensor(torch.empty(3, device="npu"), torch.ones(2, device="npu"))
    with pytest.raises(RuntimeError, match=r"ReduceOp.BAND works on bits"):
        dist.all_reduce(torch.ones(2, device="npu"), dist.ReduceOp.BAND)
    # Nothing of this has hurt the group.
    tensor = torch.ones(2, device="npu")
    dist.all_reduce(tensor)
    check(tensor, torch.full((2,), float(dist.get_world_size())), "afterwards")


@pytest.mark.parametrize(
    "function",
    [
        all_reduce_every_operator_and_type,
        reduce_every_operator_and_type,
        reduce_scatter_every_operator_and_type,
        movement_of_every_type,
        uneven_parts,
        coalesced_blocks,
        pytest.param(messages_out_of_order, marks=pytest.mark.embedded),  # NCCL takes them in order
        layouts,
        objects_and_groups,
        pytest.param(groups_that_split, marks=splits_groups_of_any_device),
        pytest.param(tensors_of_the_wrong_device, marks=pytest.mark.embedded),
    ],
    ids=lambda function: function.__name__,
)
def test_collectives(ranks: Ranks, function: Callable[[], None]) -> None:
    ranks.run(_quietly, function)


def _quietly(function: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer torch gives some collectives new names
        function()

"""The stand-in's HCCL itself, between two devices of this process: what torch_npu does not pass to it, and refusals."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
import torch

# Numbers of hccl_types.h.
TYPES = {
    torch.int8: 0,
    torch.int16: 1,
    torch.int32: 2,
    torch.float16: 3,
    torch.float32: 4,
    torch.int64: 5,
    torch.uint64: 6,
    torch.uint8: 7,
    torch.uint16: 8,
    torch.uint32: 9,
    torch.float64: 10,
    torch.bfloat16: 11,
}
SUM, PRODUCT, MAXIMUM, MINIMUM = range(4)
INVALID, NOT_SUPPORTED = 1, 5


class Hccl:
    """One communicator for each of two devices."""

    def __init__(self) -> None:
        for device in range(2):
            torch.empty(1, device=f"npu:{device}")
        self.library = ctypes.CDLL("libhccl.so")
        self.communicators = (ctypes.c_void_p * 2)()
        assert self.library.HcclCommInitAll(2, (ctypes.c_int32 * 2)(0, 1), self.communicators) == 0

    def call(self, name: str, rank: int, *arguments: object) -> int:
        """The result of a call on the current stream of device `rank`, behind what torch has queued."""
        torch.npu.synchronize(rank)
        stream = ctypes.c_void_p(torch.npu.current_stream(rank).npu_stream)
        return int(self.library[name](*arguments, ctypes.c_void_p(self.communicators[rank]), stream))

    def end(self) -> None:
        for communicator in self.communicators:
            self.library.HcclCommDestroy(ctypes.c_void_p(communicator))


@pytest.fixture
def hccl() -> Iterator[Hccl]:
    made = Hccl()
    yield made
    made.end()


def pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def numbers(*values: int) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * len(values))(*values)


REDUCTIONS: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {
    SUM: lambda rows: rows.sum(0),
    PRODUCT: lambda rows: rows.prod(0),
    MAXIMUM: lambda rows: rows.amax(0),
    MINIMUM: lambda rows: rows.amin(0),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_reductions_of_all_types(hccl: Hccl, dtype: torch.dtype) -> None:
    rows = torch.randint(0 if "uint" in str(dtype) else -11, 12, (2, 101))
    for op, right in REDUCTIONS.items():
        tensors = [row.to(dtype).to(f"npu:{rank}") for rank, row in enumerate(rows)]
        for rank, tensor in enumerate(tensors):
            place = pointer(tensor)
            count = ctypes.c_uint64(101)
            assert hccl.call("HcclAllReduce", rank, place, place, count, TYPES[dtype], op) == 0
        for tensor in tensors:
            assert torch.equal(tensor.cpu(), right(rows).to(dtype))


def test_integers_wrap_and_floats_round(hccl: Hccl) -> None:
    for values, total in (
        (torch.tensor([[100], [100]], dtype=torch.int8), -56),
        (torch.tensor([[256.0], [1.0]], dtype=torch.bfloat16), 256),
        (torch.tensor([[256.0], [3.0]], dtype=torch.bfloat16), 260),
        (torch.tensor([[2048.0], [3.0]], dtype=torch.float16), 2052),
    ):
        tensors = [value.to(f"npu:{rank}") for rank, value in enumerate(values)]
        for rank, tensor in enumerate(tensors):
            place = pointer(tensor)
            assert hccl.call("HcclAllReduce", rank, place, place, ctypes.c_uint64(1), TYPES[tensor.dtype], SUM) == 0
        assert [tensor.item() for tensor in tensors] == [total, total]


def test_parts_of_different_sizes(hccl: Hccl) -> None:
    """Parts of 2 and 3 elements, the second first, with a gap."""
    counts, places = numbers(2, 3), numbers(4, 0)
    whole = torch.arange(6.0)
    parts = [whole[4:6], whole[0:3]]
    sums = [torch.empty(len(part), device=f"npu:{rank}") for rank, part in enumerate(parts)]
    wholes = [(whole * (rank + 1)).to(f"npu:{rank}") for rank in range(2)]
    for rank, result in enumerate(sums):
        given, length = pointer(wholes[rank]), ctypes.c_uint64(len(result))
        assert hccl.call("HcclReduceScatterV", rank, given, counts, places, pointer(result), length, 4, SUM) == 0
    for result, part in zip(sums, parts):
        assert torch.equal(result.cpu(), part * 3)
    gathered = [torch.full((6,), -1.0, device=f"npu:{rank}") for rank in range(2)]
    for rank, result in enumerate(sums):
        length, into = ctypes.c_uint64(len(result)), pointer(gathered[rank])
        assert hccl.call("HcclAllGatherV", rank, pointer(result), length, into, counts, places, 4) == 0
    for result in gathered:
        assert torch.equal(result.cpu(), torch.tensor([0.0, 3, 6, -1, 12, 15]))


def test_what_is_refused(hccl: Hccl) -> None:
    x = torch.ones(128, device="npu:0")
    place = pointer(x)
    block = ctypes.c_uint64(1 << 40)
    assert hccl.call("HcclAllReduce", 0, place, place, block, TYPES[torch.float32], SUM) == INVALID
    assert hccl.call("HcclAllReduce", 0, place, place, ctypes.c_uint64(1), 12, SUM) == NOT_SUPPORTED  # int128
    assert hccl.call("HcclBroadcast", 0, place, ctypes.c_uint64(1), TYPES[torch.float32], 2) == INVALID  # no rank 2
    assert hccl.call("HcclSend", 0, place, ctypes.c_uint64(1), TYPES[torch.float32], 0) == INVALID  # to itself
    host = torch.ones(4)
    assert hccl.call("HcclBroadcast", 0, pointer(host), ctypes.c_uint64(4), TYPES[torch.float32], 0) == INVALID

"""Kernels with a planted fault, and their twins without one. `python -m` prints what checked mode says of each.

Printed is JSON: by name, the error's class, message and fields, or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from inductor_npu.errors import MemoryFaultError

N = 1000
BLOCK = 128
GRID = (triton.cdiv(N, BLOCK),)
PROGRAMS: dict[str, Callable[[], object]] = {}


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS[function.__name__] = function
    return function


@triton.jit
def copy_kernel(source, target, limit, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i, mask=i < limit), mask=i < limit)


@triton.jit
def reversed_kernel(source, target, last, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + last - i, mask=i < 1000), mask=i < 1000)


@triton.jit
def scalar_kernel(source, target, place):
    tl.store(target, tl.load(source + place))


@triton.jit
def histogram_kernel(values, bins, N: tl.constexpr):
    tl.atomic_add(bins + tl.load(values + tl.arange(0, N)), 1)


@triton.jit
def same_byte_kernel(target):
    tl.store(target, tl.program_id(0))


@triton.jit
def neighbour_kernel(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i + 1) + 1.0)


@triton.jit
def total_kernel(source, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(source + i), 0))


@triton.jit
def total_over_store_kernel(source, total, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(total, 0.0)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(source + i), 0))


@triton.jit
def ticket_kernel(tickets, log, BLOCK: tl.constexpr):
    mine = tl.atomic_add(tickets, 1)
    if mine > 0:
        tl.store(log + mine, tl.load(log + mine - 1) + 1)


def filled(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, device="npu")


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="npu")


# -- out of bounds -----------------------------------------------------------------------------------------------------
@program
def copy_within_bounds():
    copy_kernel[GRID](filled(N), empty(N), N, BLOCK=BLOCK)


@program
def load_behind_the_end():
    copy_kernel[GRID](filled(N), empty(N + 1), N + 1, BLOCK=BLOCK)


@program
def store_behind_the_end():
    copy_kernel[GRID](filled(N + 1), empty(N), N + 1, BLOCK=BLOCK)


@program
def load_of_a_whole_block_at_the_end():
    copy_kernel[GRID](filled(N), empty(2 * N), 2 * N, BLOCK=BLOCK)


@program
def reversed_within_bounds():
    reversed_kernel[GRID](filled(N), empty(N), N - 1, BLOCK=BLOCK)


@program
def reversed_before_the_begin():
    reversed_kernel[GRID](filled(N), empty(N), N - 2, BLOCK=BLOCK)


@program
def scalar_far_away():
    scalar_kernel[(1,)](filled(N), empty(1), 1 << 28)


@program
def a_view_ends_where_its_storage_does():
    x = filled(2 * N)
    copy_kernel[GRID](x[N:], empty(N), N, BLOCK=BLOCK)


@program
def load_behind_the_end_of_a_view():
    x = filled(2 * N)
    copy_kernel[GRID](x[N + 1 :], empty(N), N, BLOCK=BLOCK)


@program
def atomic_within_bounds():
    histogram_kernel[(1,)](torch.arange(64, device="npu"), torch.zeros(64, dtype=torch.int32, device="npu"), N=64)


@program
def atomic_behind_the_end():
    histogram_kernel[(1,)](torch.arange(64, device="npu"), torch.zeros(63, dtype=torch.int32, device="npu"), N=64)


@program
def freed_memory():
    x, target = filled(N), empty(N)
    address = x.data_ptr()
    del x
    copy_kernel[GRID](_Address(address), target, N, BLOCK=BLOCK)


class _Address:
    """What is left of a tensor when only its address is kept."""

    dtype = torch.float32

    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


# -- races -------------------------------------------------------------------------------------------------------------
@program
def one_program_writes_a_byte():
    same_byte_kernel[(1,)](empty(1, dtype=torch.int32))


@program
def two_programs_write_a_byte():
    same_byte_kernel[(2,)](empty(1, dtype=torch.int32))


@program
def a_program_reads_what_the_next_one_writes():
    neighbour_kernel[(4,)](filled(4 * BLOCK + 1), BLOCK=BLOCK)


@program
def atomics_on_one_byte():
    total_kernel[(4,)](filled(4 * BLOCK), torch.zeros(1, device="npu"), BLOCK=BLOCK)


@program
def a_store_beside_atomics():
    total_over_store_kernel[(4,)](filled(4 * BLOCK), torch.zeros(1, device="npu"), BLOCK=BLOCK)


@program
def programs_ordered_by_an_atomic():
    tickets = torch.zeros(1, dtype=torch.int32, device="npu")
    ticket_kernel[(4,)](tickets, torch.zeros(8, dtype=torch.int32, device="npu"), BLOCK=BLOCK)


# -- unwritten memory --------------------------------------------------------------------------------------------------
@program
def read_of_empty_memory():
    copy_kernel[GRID](empty(N), empty(N), N, BLOCK=BLOCK)


@program
def read_of_memory_that_was_another_tensor_s():
    x = filled(N)
    address = x.data_ptr()
    del x
    y = empty(N)
    assert y.data_ptr() == address, "the allocator gave other memory"
    copy_kernel[GRID](y, empty(N), N, BLOCK=BLOCK)


@program
def read_of_what_a_kernel_wrote():
    x = empty(N)
    copy_kernel[GRID](filled(N), x, N, BLOCK=BLOCK)
    copy_kernel[GRID](x, empty(N), N, BLOCK=BLOCK)


@program
def read_of_one_element_more_than_a_kernel_wrote():
    x = empty(N)
    copy_kernel[GRID](filled(N), x, N - 1, BLOCK=BLOCK)
    copy_kernel[GRID](x, empty(N), N, BLOCK=BLOCK)


@program
def read_of_what_operators_wrote():
    written = [
        empty(N).fill_(1),
        empty(N).copy_(torch.ones(N)),
        empty(N).copy_(torch.ones(N, dtype=torch.float64)),
        empty(N).copy_(filled(N)),
        torch.add(filled(N), 1, out=empty(N)),
        empty(N).uniform_(),
        torch.stack([filled(N // 2), filled(N // 2)]).view(N),
        filled(N // 2).resize_(N).fill_(0),
        torch.nn.functional.linear(filled(4, 10), filled(N // 4, 10)).view(N),
        torch.ones(N).pin_memory().to("npu", non_blocking=True),
        torch.eye(N, device="npu").to_sparse().to_dense()[0],
        filled(N).clone(),
        torch.ops.aten._foreach_add([filled(N)], 1)[0],
    ]
    for x in written:
        copy_kernel[GRID](x, empty(N), N, BLOCK=BLOCK)


@program
def atomic_on_empty_memory():
    histogram_kernel[(1,)](torch.arange(64, device="npu"), empty(64, dtype=torch.int32), N=64)


@program
def read_of_empty_memory_by_compiled_code():
    torch.compile(lambda x: torch.relu(x) + 1)(empty(N))


@program
def compiled_code():
    x = filled(64, 100).requires_grad_()
    y = torch.compile(lambda x: torch.softmax(x * 2, 1).sum(0))(x)
    y.sum().backward()


def main() -> None:
    """Prints what was found in the programs named on the command line, or in all."""
    found: dict[str, dict[str, object] | None] = {}
    for name in sys.argv[1:] or PROGRAMS:
        found[name] = None
        try:
            PROGRAMS[name]()
        except MemoryFaultError as error:
            fields = {key: str(value) for key, value in error.fields.items()}
            found[name] = {"error": type(error).__name__, "message": str(error), **fields}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

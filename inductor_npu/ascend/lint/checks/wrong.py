"""N1: what Ascend's compiler accepts and compiles to something else."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorType

from ..forms import element
from ..kernel import LIBRARY, RANDOM, Access, Kernel
from ..libdevice import INEXACT, called
from ..masks import faults, left_out
from .addresses import item_size
from .hit import Hit, hit

# Bytes that torch_npu allocates behind every tensor (NPUCachingAllocator's round_size).
_BEHIND_TENSORS = 32

_MASK_RULES = {"reversed": "N101", "data": "N102", "form": "N103"}
_HAPPENS = {
    "load": "the load reads the whole tile, also what lies behind the end",
    "store": "the store reads and writes the whole tile, also what lies behind the end and what others write",
    "atomic operation": "the operation is done for the whole tile",
}


def check(kernel: Kernel) -> Iterator[Hit]:
    yield from _masks(kernel)
    yield from _random(kernel)
    yield from _integers(kernel)
    for op in kernel.named("arith.remf", "tt.mod"):
        if isinstance(op.result.type, TensorType):
            yield hit("N107", f"remainder of {op.result.type}", op)
    for name, op in called(kernel):
        if name in INEXACT:
            yield hit("N108", f"{name}: {INEXACT[name]}", op)


def _masks(kernel: Kernel) -> Iterator[Hit]:
    for access in kernel.accesses():
        if access.mask is None:
            continue
        if kernel.forms[access.pointer].is_data:
            yield from _row_mask(kernel, access)
            continue  # each element, or each row, under its own condition
        for fault in faults(access.mask, kernel.forms):
            yield hit(
                _MASK_RULES[fault.kind], f"mask of a {access.what}: {fault.what}; {_HAPPENS[access.what]}", access.op
            )


def _row_mask(kernel: Kernel, access: Access) -> Iterator[Hit]:
    """Of rows at addresses that were loaded, a load takes the whole row and selects afterwards; a store does not. That
    is no harm where what is more than the row is memory in any case.
    """
    assert access.mask is not None, "asked before"
    pointer, mask = kernel.forms[access.pointer].steps, kernel.forms[access.mask].steps
    if access.op.name == "tt.load" and len(pointer) > 1 and pointer[-1] == 1 and mask[-1] != 0:
        more = left_out(access.mask, len(mask) - 1, kernel.forms)
        if more is not None and more * item_size(access) <= _BEHIND_TENSORS:
            return
        yield hit(
            "N103", "mask along the rows of a gather: the load reads whole rows, also behind their end", access.op
        )


def _random(kernel: Kernel) -> Iterator[Hit]:
    for op in kernel.ops:
        if op.name.removeprefix(LIBRARY) in RANDOM and op.name.startswith(LIBRARY):
            yield hit("N104", f"tl.{op.name.removeprefix(LIBRARY)}", op)
        elif op.name == "tt.mulhiui" and isinstance(op.result.type, TensorType):
            yield hit("N104", "upper half of an unsigned product, as in Philox", op)


def _integers(kernel: Kernel) -> Iterator[Hit]:
    for op in kernel.named("arith.divsi", "arith.divui", "arith.shrui"):
        if not isinstance(op.result.type, TensorType) or kernel.forms[op.result].is_uniform:
            continue
        if op.name == "arith.shrui":
            if not _is_masked(kernel, op):
                yield hit("N106", f"unsigned shift of {op.result.type}", op)
        elif element(op.result) == "i32" and kernel.forms[op.result].is_data:
            yield hit("N105", f"division of {op.result.type}", op)


def _is_masked(kernel: Kernel, shift: Op) -> bool:
    """Whether every use takes only bits that were there before the shift."""
    amount = kernel.forms[shift.operands[1]].number
    if amount is None:
        return False
    bits = int(element(shift.result)[1:])
    kept = (1 << (bits - amount)) - 1
    return all(
        user.name == "arith.andi"
        and any((number := kernel.forms[value].number) is not None and 0 <= number <= kept for value in user.operands)
        for user in kernel.users.get(shift.result, [])
    )

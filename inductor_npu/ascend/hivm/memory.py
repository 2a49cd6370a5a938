"""A kernel's on-chip plan: bytes of each memory, double-buffered buffers, loops over tiles."""

from __future__ import annotations

from dataclasses import dataclass

from .callees import find, is_transfer
from .ir import ELEMENT_BITS, Function, MemRefType, Operation

LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True)
class MemoryPlan:
    """Of one function. `bytes` is the end of the last buffer of each memory: ub, cbuf (L1), ca, cb, cc (L0A, L0B,
    L0C).
    """

    bytes: dict[str, int]
    doubled: int
    loops_over_tiles: bool


def plan(function: Function) -> MemoryPlan:
    """The compiler's own plan, as its `pointer_cast`s of constant addresses say.

    A buffer is doubled where the compiler chooses between two of them by the parity of a loop's iteration (an
    `arith.select`).
    """
    used: dict[str, int] = {}
    doubled = 0
    for operation in function.body.walk():
        if operation.name == "hivm.hir.pointer_cast":
            memref = operation.results[0].type
            if isinstance(memref, MemRefType) and (end := _end(operation, memref)) is not None:
                used[memref.space] = max(used.get(memref.space, 0), end)
        elif operation.name == "arith.select" and isinstance(operation.results[0].type, MemRefType):
            doubled += operation.results[0].type.space not in ("", "gm")
    loops = (operation for operation in function.body.walk() if operation.name in LOOPS)
    return MemoryPlan(used, doubled, any(_moves(loop) for loop in loops))


def _end(operation: Operation, memref: MemRefType) -> int | None:
    """The byte behind a buffer; None if its address or size is not constant."""
    last = 0
    for size, stride in zip(memref.shape, memref.strides):
        if size is None or stride is None:
            return None
        last += max(size - 1, 0) * stride
    elements = last + 1 if 0 not in memref.shape else 0
    if memref.element not in ELEMENT_BITS:
        return None
    ends = []
    for address in operation.attributes["addresses"]:  # type: ignore[attr-defined]
        constant = address.owner
        if constant is None or constant.name != "arith.constant":
            return None
        ends.append(constant.attributes["value"] + -(-elements * memref.element_bits // 8))
    return max(ends)


def _moves(loop: Operation) -> bool:
    for operation in loop.walk():
        if operation.name == "func.call":
            callee = find(str(operation.attributes["callee"]))
            if callee is not None and is_transfer(callee):
                return True
    return False

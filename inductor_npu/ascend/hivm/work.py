"""What one operation costs: the formulas of the cost model.

Units: cycles of the core's clock, bytes of device memory. Sources, and what is not known, are in docs/ascend.md, "Cost
model".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from inductor_npu.target import NpuTarget

from .access import BLOCK, REPEAT, footprint, rows, sizes
from .callees import Callee, Pipe, transfer_rows
from .guards import buffers
from .ir import ELEMENT_BITS
from .machine import Buffer, Known

MAX_REPEATS = 255  # of one vector instruction with rows of its own
SCALAR_ON_CHIP = 8  # cycles of one scalar access; chosen, no source


PIPES = ("mte2", "vector", "mte3", "scalar", "cube", "mte1", "fix")
VALUES = (*PIPES, "product", "drained", "read", "written", "instructions")


@dataclass(frozen=True, slots=True)
class Work:
    """Cycles of each pipe, bytes of device memory, vector instructions. `product` are the cycles of products with the
    waits between L0 and the cube, `drained` counts accumulators that leave L0C. `exact` is False where a size had to be
    assumed.
    """

    mte2: float = 0
    vector: float = 0
    mte3: float = 0
    scalar: float = 0
    cube: float = 0
    mte1: float = 0
    fix: float = 0
    product: float = 0
    drained: float = 0
    read: int = 0
    written: int = 0
    instructions: float = 0
    exact: bool = True

    def values(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in VALUES)


NOTHING = Work()


@dataclass(frozen=True, slots=True)
class Rates:
    """A chip's rates: `device_bytes` of device memory for each cycle of a core, and the cycles of one scalar access to
    device memory, past the scalar cache. `target` has those of the cube core.
    """

    device_bytes: float
    scalar_access: int
    target: NpuTarget


def rates(target: NpuTarget, cores: int) -> Rates:
    """The rates of a core of `cores` that share device memory evenly; infinite where the bandwidth is not known."""
    bandwidth = target.memory_bandwidth
    device_bytes = inf if bandwidth is None else bandwidth / (cores * target.clock)
    return Rates(device_bytes, target.scalar_access_cycles, target)


def of_call(callee: Callee, name: str, operands: list[Known], rates: Rates) -> Work:
    """What a call of a library function costs."""
    views = buffers(operands)
    if not views:
        return NOTHING
    if callee.pipe is Pipe.MATRIX:
        return _matrix(operands, rates.target)
    hidden = callee.hidden(name, operands) if callee.hidden is not None else None
    moved = 0 if hidden is None else hidden[0] or 0
    scalar = moved * len(views[:3]) * SCALAR_ON_CHIP
    if callee.pipe in (Pipe.MTE2, Pipe.MTE3, Pipe.FIX):
        return _transfer(callee, operands, rates, moved, scalar)
    whole = max((view.elements or 0 for view in views), default=0)
    if callee.pipe is Pipe.SCALAR or (moved and moved >= whole):
        return Work(scalar=scalar)
    return _vector(callee, views, scalar)


def of_access(buffer: Buffer | None, writes: bool, rates: Rates) -> Work:
    """What a memref.load or memref.store of one element costs."""
    if buffer is None or buffer.space != "gm":
        return Work(scalar=SCALAR_ON_CHIP)
    size = -(-buffer.element_bits // 8)
    return Work(scalar=rates.scalar_access, read=0 if writes else size, written=size if writes else 0)


def _transfer(callee: Callee, operands: list[Known], rates: Rates, moved: int, scalar: float) -> Work:
    views = buffers(operands)
    gm = next((view for view in views if view.space == "gm"), None)
    if gm is None:  # filling L1
        return Work(mte2=_bytes(views[0]) / (REPEAT * 1.0))
    walked = transfer_rows(operands, tile=False) if callee.pipe is not Pipe.FIX else None
    if walked is None:
        own = rows([gm])
        count, burst = (own.count, own.bytes(gm.element_bits)) if own else (1, 0)
    else:
        count, burst, _ = walked
    size = count * burst
    cycles = count * (-(-burst // BLOCK)) * BLOCK / rates.device_bytes
    if moved and moved >= (gm.elements or 0):
        cycles = 0
    if callee.pipe is Pipe.MTE2:
        return Work(mte2=cycles, read=size, scalar=scalar, exact=gm.exact)
    if callee.pipe is Pipe.FIX:
        return Work(fix=cycles, drained=1, written=size, scalar=scalar, exact=gm.exact)
    return Work(mte3=cycles, written=size, scalar=scalar, exact=gm.exact)


def _vector(callee: Callee, views: list[Buffer], scalar: float) -> Work:
    on_chip = [view for view in views if view.space == "ub"]
    scratch = len(on_chip) > 2 and callee.pipe is Pipe.VECTOR
    largest = max(on_chip[:-1] if scratch else on_chip, key=lambda view: footprint(view) or 0, default=None)
    if largest is None:
        return Work(scalar=scalar)
    walked = rows([largest])
    if walked is None:
        return Work(scalar=scalar, exact=False)
    if walked.count == 1 or walked.bytes(largest.element_bits) <= BLOCK:
        instructions, repeats = 1, -(-(footprint(largest) or 0) // REPEAT)
    else:
        across = -(-walked.bytes(largest.element_bits) // REPEAT)
        instructions, repeats = across * -(-walked.count // MAX_REPEATS), across * walked.count
    return Work(
        vector=repeats * callee.steps,
        instructions=ceil(instructions * callee.steps),
        scalar=scalar,
        exact=largest.exact,
    )


def _matrix(operands: list[Known], target: NpuTarget) -> Work:
    """`mma_tile_*(a, b, first, m, k, n, c, ...)`.

    The function brings operands to L0A and L0B in parts of k, each of half of them, so that one part is loaded while
    another is multiplied. It waits for both halves at its end: a product of one part does not overlap at all.
    """
    left = buffers(operands)[0]
    numbers = [operand for operand in operands[3:6] if isinstance(operand, int)]
    if len(numbers) < 3:
        return Work(exact=False)
    m, k, n = numbers
    bits = ELEMENT_BITS[left.element]
    cube = target.product_cycles(m, n, k * bits)
    mte1 = k * bits / 8 * (m / target.l1_to_l0a_bytes + n / target.l1_to_l0b_bytes)
    parts = target.parts_to_l0(m, n, k, bits)
    between = (parts - 1) / parts * max(cube, mte1)
    return Work(cube=cube, mte1=mte1, product=(cube + mte1) / parts + between)


def _bytes(view: Buffer) -> int:
    total = 1
    for size in sizes(view, tile=False):
        total *= size or 0
    return -(-total * view.element_bits // 8)

"""What an operation uses and writes, its regions included: what keeps the order of effects."""

from __future__ import annotations

from collections.abc import Iterable

from ...ttir.ir import Block, Op, Value
from .operations import ATOMICS, WRITES


def nested(op: Op) -> Iterable[Op]:
    """All operations in the regions of `op`."""
    for region in op.regions:
        yield from region.walk()


def free_values(op: Op) -> set[Value]:
    """Values that the regions of `op` use and that are defined outside of them."""
    inside: set[Value] = set()
    used: set[Value] = set()

    def visit(block: Block) -> None:
        inside.update(block.arguments)
        for inner in block.ops:
            used.update(inner.operands)
            inside.update(inner.results)
            for region in inner.regions:
                visit(region)

    for region in op.regions:
        visit(region)
    return used - inside


def written_pointers(op: Op) -> list[Value]:
    """The addresses that `op`, or an operation inside it, writes through."""
    return [o.operands[0] for o in (op, *nested(op)) if o.name in WRITES or o.name in ATOMICS]

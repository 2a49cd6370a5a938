"""Plans a block: which operations share a loop nest, and which values are kept in scratch.

Tensor values are virtual: they are written where a *root* (a store, an atomic, a reduction, a loop's next value) needs
them. Neighbouring roots over one tile shape form a group, one loop nest. The plan keeps the order of memory effects. A
nest computes all that a chunk needs before it writes, so that a load shares a nest with a store only at the same
offsets. A load whose memory is written before its last use is kept in scratch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ttir.ir import Op
from ..analysis.facts import Facts
from .dataflow import Dataflow
from .fusion import Fusion
from .materialisation import Materialisation
from .steps import Root, Step


def plan_block(facts: Facts, ops: Sequence[Op], tail: Sequence[Root] = (), separate_tail: bool = False) -> list[Step]:
    """Steps for `ops` in order, then for the roots in `tail`, with `separate_tail` in a loop nest of their own."""
    flow = Dataflow(facts, list(ops), list(tail))
    return Materialisation(flow, Fusion(flow, separate_tail).steps).steps

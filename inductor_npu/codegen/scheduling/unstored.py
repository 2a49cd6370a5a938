"""Results that a kernel need not store, since nobody reads them but its own loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet


def names_of_unstored(nodes: Iterable[BaseSchedulerNode]) -> OrderedSet[str]:
    """The buffers that `nodes`, all loops of one kernel, write and nothing else needs."""
    written = [buffer for node in nodes for buffer in node.get_outputs()]
    loops = OrderedSet(buffer.defining_op_name() for buffer in written)
    names = (buffer.get_name() for buffer in written)
    return OrderedSet(name for name in names if V.graph.scheduler.can_buffer_be_removed_through_fusion(name, loops))


def put_stored_reads_first(nodes: Sequence[BaseSchedulerNode]) -> None:
    """Inductor writes a result in place of the first of its loop's reads that it can. What `nodes`, all loops of one
    kernel, do not store has no memory to give: it comes last.
    """
    unstored = names_of_unstored(nodes)
    for node in nodes:
        node.read_writes.reads = OrderedSet(sorted(node.read_writes.reads, key=lambda read: read.name in unstored))

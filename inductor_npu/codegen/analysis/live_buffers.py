"""Which results of a graph are in memory: those that somebody reads but the loops of their own kernel.

Inductor counts memory that is not there: results that are stored nowhere, since only their own kernel reads them, such
as attention's scores. And it takes the gradients that a backward pass is given for freed after their last use; autograd
keeps them to the end. What is counted too much in one step hides by what orders of kernels differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch._inductor import memory
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

_GIVEN_GRADIENTS = "tangents_"  # AOTAutograd's name for them


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


def describe_memory(nodes: list[BaseSchedulerNode]) -> dict[str, memory.FreeableInputBuffer]:
    """Tells all nodes and buffers of the graph what memory they take and free, and who reads them, for the order of
    kernels and the choice of memory to use again. Returns the graph's inputs by name.
    """
    scheduler, outputs = V.graph.scheduler, OrderedSet(V.graph.get_output_names())
    names, fused = scheduler.name_to_buf, scheduler.name_to_fused_node
    _, inputs = memory.prepare_planning_info(nodes, names, fused, OrderedSet(V.graph.graph_inputs), outputs)
    for node in nodes:
        _count_what_is_stored(node)
    for name, given in inputs.items():
        if name.startswith(_GIVEN_GRADIENTS):
            given.mpi_buffer.size_free = 0
    return inputs


def _count_what_is_stored(node: BaseSchedulerNode) -> None:
    """Gives no size to results that nobody reads but the loops of their own kernel."""
    unstored = names_of_unstored(node.get_nodes())
    for buffer in node.get_outputs():
        if buffer.get_name() in unstored:
            buffer.mpi_buffer.size_alloc = buffer.mpi_buffer.size_free = 0
    node.mpi_node.size = sum(buffer.mpi_buffer.size_alloc for buffer in node.get_outputs())
